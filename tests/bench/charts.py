"""Charts by gnuplot, as `attend load` has them drawn (client/load_chart.h)."""

import shutil
import subprocess

import figures

STYLE = """set terminal svg noenhanced size 1200,{height} dynamic background rgb "white" font "sans-serif,15"
set grid
set lmargin 12
set key outside right center samplen 2
set logscale x 2
set xlabel "sequence length"
"""

LINES = {"attend": ("this core", "#1f5fa8", 7), "torch": ("PyTorch", "#c8641e", 5),
         "onnxruntime": ("ONNX Runtime", "#3a8a3a", 9), "openvino": ("OpenVINO", "#8a4a9e", 11),
         "matmul": ("limit: large product", "#555555", 0)}


def throughput_script(records, element_type="f32", heads=8):
    """Rate by sequence length of every contestant, a panel for each dim; full attention. None without records."""
    chosen = [record for record in records if record["section"] == "grid" and not record["shape"]["causal"]
              and record["shape"]["type"] == element_type and record["shape"]["query_heads"] == heads
              and figures.took_part(record, "attend")]
    dims = sorted({record["shape"]["dim"] for record in chosen})
    if not dims:
        return None
    script = STYLE.format(height=120 + 380 * len(dims))
    script += f'set multiplot layout {len(dims)},1 title "Attention by sequence length: {element_type}, {heads} heads"\n'
    script += 'set ylabel "GFLOP/s"\nset yrange [0:*]\n'
    for dim in dims:
        of_dim = sorted((record for record in chosen if record["shape"]["dim"] == dim),
                        key=lambda record: record["shape"]["queries"])
        script += panel(of_dim, f"head dim {dim}")
    return script + "unset multiplot\n"


def panel(records, title):
    text, plots = "", []
    for number, (name, (label, colour, point)) in enumerate(LINES.items()):
        points = [f"{record['shape']['queries']} {figures.rate(record, name) / 1e9:.4g}" for record in records
                  if figures.took_part(record, name)]
        if not points:
            continue
        text += f"$line{number} << EOD\n" + "\n".join(points) + "\nEOD\n"
        style = f'linewidth 2 linecolor rgb "{colour}"'
        shape = f"with linespoints {style} pointtype {point}" if point else f"with lines {style} dashtype 2"
        plots.append(f'$line{number} using 1:2 {shape} title "{label}"')
    axis = length_axis([record["shape"]["queries"] for record in records])
    return f'{text}set title "{title}"\n{axis}plot ' + ", \\\n     ".join(plots) + "\n"


def length_axis(lengths):
    """A tic for each, and room beside the first and the last."""
    tics = ", ".join(map(str, lengths))
    return f"set xtics ({tics})\nset xrange [{lengths[0] / 1.3:.6g}:{lengths[-1] * 1.3:.6g}]\n"


def memory_script(records):
    """Resident bytes beyond tensors and packed keys by sequence length. None without records."""
    points = [(record["shape"]["queries"], (record["beyond_tensors"] - record["packed"]) / 2**20,
               record["beyond_tensors"] / 2**20, record["tensors"] / 2**20)
              for record in records if record["section"] == "memory"]
    if not points:
        return None
    lines = "\n".join(" ".join(f"{value:.6g}" for value in point) for point in points)
    return (STYLE.format(height=520) + f"$memory << EOD\n{lines}\nEOD\n"
            'set title "Peak resident memory of one head, D=64, f32"\nset ylabel "MiB"\nset yrange [0:*]\n'
            "set key inside top left\n"
            + length_axis([point[0] for point in points]) +
            'plot $memory using 1:2 with linespoints linewidth 2 pointtype 7 linecolor rgb "#1f5fa8" '
            'title "beyond tensors and packed keys", \\\n'
            '     $memory using 1:3 with linespoints linewidth 2 pointtype 5 linecolor rgb "#c8641e" '
            'title "beyond tensors", \\\n'
            '     $memory using 1:4 with lines linewidth 2 dashtype 2 linecolor rgb "#555555" '
            'title "query, key, value and output"\n')


def scripts(records):
    """By the name of its file, what gnuplot is told of each chart; None where nothing of it was measured."""
    throughput = {f"throughput_{name}.svg": throughput_script(records, name) for name in ("f32", "bf16", "f16")}
    return {**throughput, "memory.svg": memory_script(records)}


def draw(script, path):
    """Whether there is gnuplot, and something to draw. Raises CalledProcessError if gnuplot fails."""
    if script is None or shutil.which("gnuplot") is None:
        return False
    subprocess.run(["gnuplot", "-"], input=f'set output "{path}"\n{script}', text=True, check=True,
                   stdout=subprocess.DEVNULL)
    return True
