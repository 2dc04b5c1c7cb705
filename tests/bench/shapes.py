"""The problems that are measured."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    queries: int
    dim: int
    query_heads: int
    type: str = "f32"
    causal: bool = False
    keys: int | None = None  # as many as queries if None
    kv_heads: int | None = None  # as many as query heads if None
    batch: int = 1
    window: int = 0  # keys that a query sees; 0: all

    def words(self):
        """As the programs read it: tests/bench/bench_request.h."""
        keys = self.queries if self.keys is None else self.keys
        kv_heads = self.query_heads if self.kv_heads is None else self.kv_heads
        return (f"type={self.type} batch={self.batch} query_heads={self.query_heads} kv_heads={kv_heads} "
                f"queries={self.queries} keys={keys} dim={self.dim} causal={int(self.causal)} window={self.window}")

    def text(self):
        """As a reader reads it."""
        parts = [self.type, f"N={self.queries}" if self.keys is None else f"{self.queries} on {self.keys} keys",
                 f"D={self.dim}"]
        if self.batch > 1:
            parts.append(f"batch {self.batch}")
        heads = f"{self.query_heads} head" + ("s" if self.query_heads > 1 else "")
        parts.append(heads if self.kv_heads is None else f"{heads} on {self.kv_heads}")
        if self.window:
            parts.append(f"window {self.window}")
        elif self.causal:
            parts.append("causal")
        return " ".join(parts)

    def operations(self):
        """Of both matrix products, for shapes without a window."""
        keys = self.queries if self.keys is None else self.keys
        seen = self.queries * (self.queries + 1) // 2 if self.causal else self.queries * keys
        return 4 * self.batch * self.query_heads * seen * self.dim

    def record(self):
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


def grid(lengths, dims, heads, types, masks):
    return [Shape(n, d, h, t, causal) for t in types for causal in masks for d in dims for h in heads for n in lengths]
