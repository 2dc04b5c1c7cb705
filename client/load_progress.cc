#include "client/load_progress.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attend::client {
namespace {

constexpr absl::Duration kBetweenDrawings = absl::Milliseconds(200);
constexpr char kEmptyLine[] = "\r\x1b[K";

}  // namespace

void LoadProgress::StartPart(const std::string& what, size_t position, size_t total) {
  prefix_ = absl::StrCat(what, " (", position, " of ", total, "): ");
  drawn_at_ = -absl::InfiniteDuration();
}

void LoadProgress::ShowPhase(const std::string& phase) { Draw(prefix_ + phase); }

void LoadProgress::ShowMeasurement(const LoadMeasurement& seen, absl::Duration elapsed) {
  if (elapsed - drawn_at_ < kBetweenDrawings) return;
  drawn_at_ = elapsed;
  std::string text = absl::StrFormat("%s%.1f s, %d calls", prefix_, absl::ToDoubleSeconds(elapsed), seen.ok());
  if (seen.failed() > 0) absl::StrAppend(&text, ", ", seen.failed(), " failed");
  if (seen.ok() > 0) {
    absl::StrAppendFormat(&text, ", %.3g ms each", absl::ToDoubleMilliseconds(seen.latencies().mean()));
  }
  Draw(text);
}

void LoadProgress::Draw(const std::string& text) {
  if (!terminal_) return;
  stream_ << kEmptyLine << text << std::flush;
  drawn_ = true;
}

void LoadProgress::Clear() {
  if (drawn_) stream_ << kEmptyLine << std::flush;
  drawn_ = false;
}

}  // namespace attend::client
