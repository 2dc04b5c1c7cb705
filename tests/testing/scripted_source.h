// Tile sources without matrix products, for tests of what schedules them.
#ifndef ATTEND_TESTS_TESTING_SCRIPTED_SOURCE_H_
#define ATTEND_TESTS_TESTING_SCRIPTED_SOURCE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "core/tile_source.h"

namespace attend::testing {

// Some packing tiles, then some tiles that wait for all of the packing, all of the same work. Thread-safe.
class ScriptedSource final : public core::TileSource {
 public:
  struct Script {
    int64_t packing_tiles = 0;
    int64_t tiles = 1;
    int64_t tile_work = 1000;
    int parallelism = 1000;
    absl::Status status = absl::OkStatus();
    // Called within each tile.
    std::function<void(int worker)> on_tile = [](int) {};
    // Called by the destructor, with the number of workers that are inside just then.
    std::function<void(int inside)> on_destroy = [](int) {};
  };

  explicit ScriptedSource(Script script) : script_(std::move(script)) {}
  ~ScriptedSource() override { script_.on_destroy(inside_.load()); }

  StepResult Step(int worker) override {
    inside_.fetch_add(1);
    const StepResult result = Advance(worker);
    inside_.fetch_sub(1);
    return result;
  }

  bool finished() const override { return packed_.load() + done_.load() == script_.packing_tiles + script_.tiles; }
  absl::Status status() const override { return script_.status; }
  int parallelism() const override { return script_.parallelism; }
  int64_t total_multiply_adds() const override { return (script_.packing_tiles + script_.tiles) * script_.tile_work; }

 private:
  StepResult Advance(int worker) {
    if (packing_taken_.load() < script_.packing_tiles && packing_taken_.fetch_add(1) < script_.packing_tiles) {
      return RunTile(worker, /*packing=*/true);
    }
    if (packed_.load() < script_.packing_tiles) return {.outcome = Outcome::kBlocked};
    if (taken_.load() < script_.tiles && taken_.fetch_add(1) < script_.tiles) return RunTile(worker, false);
    return {.outcome = Outcome::kExhausted};
  }

  StepResult RunTile(int worker, bool packing) {
    script_.on_tile(worker);
    (packing ? packed_ : done_).fetch_add(1);
    return {.outcome = Outcome::kAdvanced, .multiply_adds = script_.tile_work, .packing = packing};
  }

  const Script script_;
  std::atomic<int> inside_{0};
  std::atomic<int64_t> packing_taken_{0};
  std::atomic<int64_t> packed_{0};
  std::atomic<int64_t> taken_{0};
  std::atomic<int64_t> done_{0};
};

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_SCRIPTED_SOURCE_H_
