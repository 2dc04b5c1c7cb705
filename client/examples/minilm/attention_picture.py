"""Draws which token of a sentence attends to which, by weights that the service returned."""

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402: after the choice of a back end without a screen
from matplotlib.patches import Rectangle  # noqa: E402

COLOURS = "Blues"
BARS = "#3b82b6"
MARK = "#c2410c"  # the word that is asked about
LARGEST = 40  # tokens whose labels can be read


def strongest(weights, tokens, word):
    """'"server" (0.48), then "request" (0.23)': what a word's row of weights [query, key] is largest for."""
    row = weights[tokens.index(word)]
    first, second = np.argsort(-row, kind="stable")[:2]
    return f'"{tokens[first]}" ({row[first]:.2f}), then "{tokens[second]}" ({row[second]:.2f})'


def _draw_weights(axes, tokens, weights, row, largest):
    image = axes.imshow(weights, cmap=COLOURS, vmin=0, vmax=largest)
    axes.add_patch(Rectangle((-0.5, row - 0.5), len(weights), 1, fill=False, edgecolor=MARK, linewidth=2))
    axes.set_xticks(range(len(tokens)), tokens, rotation=90)
    axes.set_yticks(range(len(tokens)), tokens)
    axes.tick_params(length=0)
    return image


def _mark(axis, row):
    axis.get_ticklabels()[row].set(color=MARK, fontweight="bold")


def draw_head(path, tokens, weights, word, where):
    """One head's weights [query, key]: all of them, and as bars those of `word`. `where` names the head."""
    row = tokens.index(word)
    size = 2.4 + 0.33 * len(tokens)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(size * 1.45, size), width_ratios=(1.6, 1),
                                            layout="constrained")
    image = _draw_weights(left, tokens, weights, row, weights.max())
    left.tick_params("x", labeltop=True, labelbottom=False)
    _mark(left.xaxis, row)
    _mark(left.yaxis, row)
    left.set_xlabel("... to this token")
    left.set_ylabel("attention from this token ...")
    figure.colorbar(image, ax=left, location="bottom", shrink=0.6, pad=0.02, label="weight; each row sums to 1")
    bars = right.barh(range(len(tokens)), weights[row], color=BARS, height=0.7)
    right.bar_label(bars, [f"{weight:.2f}" for weight in weights[row]], padding=3)
    right.set_title(f'from "{word}" to', fontsize="medium", color=MARK)
    right.set_yticks(range(len(tokens)), tokens)
    right.tick_params("y", length=0)
    right.set_ylim(len(tokens) - 0.5, -0.5)
    right.set_xlim(0, weights[row].max() * 1.25)
    right.set_xticks([])
    right.spines[["top", "right", "bottom"]].set_visible(False)
    _finish(figure, path, word, f"{where}: most to {strongest(weights, tokens, word)}")


def draw_all_heads(path, tokens, weights, word, where):
    """Each head's weights [head, query, key] of one layer, small, with the token that `word` attends to most."""
    row = tokens.index(word)
    columns = 4
    rows = -(-len(weights) // columns)
    size = 1.2 + 0.14 * len(tokens)
    figure, grid = pyplot.subplots(rows, columns, figsize=(columns * size + 1, rows * (size + 0.35) + 1.6),
                                   layout="constrained", squeeze=False)
    for head, (axes, matrix) in enumerate(zip(grid.flat, weights), 1):
        image = _draw_weights(axes, tokens, matrix, row, 1)
        axes.tick_params(labelsize="x-small")
        _mark(axes.xaxis, row)
        _mark(axes.yaxis, row)
        axes.label_outer()
        most = int(matrix[row].argmax())
        axes.set_title(f'head {head}: "{tokens[most]}" {matrix[row, most]:.2f}', fontsize="small")
    figure.supxlabel("... to this token", fontsize="medium")
    figure.supylabel("attention from this token ...", fontsize="medium")
    figure.colorbar(image, ax=grid, location="right", shrink=0.4, label="weight; each row sums to 1")
    _finish(figure, path, word, f'{where}; above each head what "{word}" attends to most')


def _finish(figure, path, word, caption):
    figure.suptitle(f'What does "{word}" attend to?\n', fontsize="x-large", fontweight="bold")
    below_title = 1 - 48 / figure.bbox.height
    figure.text(0.5, below_title, caption, ha="center")
    figure.savefig(path, metadata={"Software": None})
    pyplot.close(figure)
