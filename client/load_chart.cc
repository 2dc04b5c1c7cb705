#include "client/load_chart.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/pending_file.h"
#include "client/piped_program.h"

namespace attend::client {
namespace {

// For use within double quotes of a gnuplot script.
std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", " "}});
}

std::vector<LengthFigures> Drawable(const LoadReport& report) {
  std::vector<LengthFigures> drawable;
  std::copy_if(report.lengths.begin(), report.lengths.end(), std::back_inserter(drawable),
               [](const LengthFigures& length) { return length.ok > 0; });
  std::sort(drawable.begin(), drawable.end(),
            [](const LengthFigures& a, const LengthFigures& b) { return a.key_length < b.key_length; });
  return drawable;
}

std::string DataBlock(const std::vector<LengthFigures>& lengths) {
  std::string text = "$figures << EOD\n";
  for (const LengthFigures& length : lengths) {
    absl::StrAppendFormat(&text, "%d %g %g %g %g\n", length.key_length, length.tokens_per_second, length.gflops,
                          absl::ToDoubleMilliseconds(length.p50), absl::ToDoubleMilliseconds(length.p99));
  }
  return text + "EOD\n";
}

std::string LengthAxis(const std::vector<LengthFigures>& lengths) {
  constexpr size_t kMostTics = 16;
  std::string text = "set logscale x 2\n";
  if (lengths.empty()) return text;
  absl::StrAppendFormat(&text, "set xrange [%g:%g]\n", static_cast<double>(lengths.front().key_length) / 1.3,
                        static_cast<double>(lengths.back().key_length) * 1.3);
  if (lengths.size() <= kMostTics) {
    const auto tic = [](std::string* out, const LengthFigures& length) { absl::StrAppend(out, length.key_length); };
    absl::StrAppend(&text, "set xtics (", absl::StrJoin(lengths, ", ", tic), ")\n");
  }
  return text;
}

constexpr char kPanels[] = R"gnuplot(set grid
set style line 1 linewidth 2 pointtype 7 pointsize 0.8 linecolor rgb "#1f5fa8"
set style line 2 linewidth 2 pointtype 5 pointsize 0.8 linecolor rgb "#c8641e"
set lmargin 12
set rmargin 12
set xlabel "sequence length (tokens)"
set key above horizontal

set title "Throughput"
set ylabel "tokens/s"
set y2label "GFLOP/s"
set yrange [0:*]
set y2range [0:*]
set ytics nomirror
set y2tics
set format y "%.0s%c"
plot $figures using 1:2 with linespoints linestyle 1 title "tokens/s (left axis)", \
     $figures using 1:3 axes x1y2 with linespoints linestyle 2 title "GFLOP/s (right axis)"

set title "Latency"
set ylabel "latency (ms)"
unset y2label
unset y2tics
set ytics mirror
set logscale y 10
set yrange [*:*]
set format y "%g"
plot $figures using 1:5 with linespoints linestyle 2 title "p99", \
     $figures using 1:4 with linespoints linestyle 1 title "p50 (median)"
unset multiplot
)gnuplot";

}  // namespace

std::string ChartScript(const LoadReport& report, absl::string_view path, absl::string_view output) {
  const std::vector<LengthFigures> lengths = Drawable(report);
  const std::string terminal =
      absl::EndsWith(path, ".png")
          ? "set terminal pngcairo noenhanced size 1000,900 background rgb \"white\" font \"sans,13\"\n"
          : "set terminal svg noenhanced size 1000,900 dynamic background rgb \"white\" font \"sans-serif,15\"\n";
  return absl::StrCat(terminal, "set output \"", Escaped(output), "\"\n", DataBlock(lengths), LengthAxis(lengths),
                      "set multiplot layout 2,1 title \"Attention by sequence length: ", Escaped(report.problem), "\\n",
                      Escaped(report.load), ", ", Escaped(report.instruction_set), ", ", report.compute_threads,
                      " compute threads\"\n", kPanels);
}

absl::Status WriteChart(const LoadReport& report, const std::string& path) {
  if (Drawable(report).empty()) return absl::FailedPreconditionError("no chart: nothing was measured");
  auto file = PendingFile::Create(path);
  if (!file.ok()) return file.status();
  auto outcome = RunPipedProgram({"gnuplot", "-"}, ChartScript(report, path, file->temporary_path()));
  if (!outcome.ok()) return outcome.status();
  if (outcome->exit_code != 0) {
    return absl::InternalError(absl::StrCat("gnuplot failed with ", outcome->exit_code, ": ", outcome->standard_error));
  }
  return file->Commit();
}

}  // namespace attend::client
