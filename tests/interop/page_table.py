"""A table in a page of Markdown that a test makes, between two comments that name it."""


class PageTable:

    def __init__(self, page, name, rows):
        """rows: lists of texts, the first one the head."""
        self._page, self._rows = page, rows
        self._begin, self._end = f"<!-- table {name}: made by its test -->\n", f"<!-- end of table {name} -->\n"

    def text(self):
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in self._rows]
        return "\n".join([lines[0], "|" + "---|" * len(self._rows[0]), *lines[1:], ""])

    def _parts_of_page(self):
        before, found, rest = self._page.read_text().partition(self._begin)
        table, ended, after = rest.partition(self._end)
        if not found or not ended:
            raise ValueError(f"{self._page} has no place for the table: {self._begin}{self._end}")
        return before + self._begin, table, self._end + after

    def text_in_page(self):
        return self._parts_of_page()[1]

    def write(self):
        before, _, after = self._parts_of_page()
        self._page.write_text(before + self.text() + after)
