#include "client/load_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "client/arrival_schedule.h"

namespace attend::client {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// Time passes only while the loop waits, and then jumps to the next event.
class FakeClock final : public LoadClock {
 public:
  absl::Time Now() override { return now_; }

  void WaitUntil(std::unique_lock<std::mutex>& lock, std::condition_variable&, absl::Time time) override {
    if (events_.empty() || events_.begin()->first > time) {
      now_ = time;
      return;
    }
    auto event = events_.extract(events_.begin());
    now_ = std::max(now_, event.key());
    lock.unlock();
    event.mapped()();
    lock.lock();
  }

  void At(absl::Time time, std::function<void()> task) { events_.emplace(time, std::move(task)); }

 private:
  absl::Time now_ = absl::UnixEpoch();
  std::multimap<absl::Time, std::function<void()>> events_;
};

// Answers every call after a time that may depend on its number.
class FakeServer {
 public:
  explicit FakeServer(FakeClock& clock, std::function<absl::Duration(int64_t)> service)
      : clock_(clock), service_(std::move(service)) {}

  LoadLoop::Starter Starter() {
    return [this](int64_t call, const LoadLoop::Done& done) -> std::function<void()> {
      started_.push_back(clock_.Now() - absl::UnixEpoch());
      auto open = std::make_shared<bool>(true);
      const auto answer = [open, done](const CallRecord& record) {
        if (std::exchange(*open, false)) done(record);
      };
      const CallRecord record = answer_ ? answer_(call) : CallRecord{.status = absl::OkStatus()};
      clock_.At(clock_.Now() + service_(call), [answer, record] { answer(record); });
      return [answer] { answer({.status = absl::CancelledError()}); };
    };
  }

  void AnswerWith(std::function<CallRecord(int64_t)> answer) { answer_ = std::move(answer); }
  const std::vector<absl::Duration>& started() const { return started_; }

 private:
  FakeClock& clock_;
  std::function<absl::Duration(int64_t)> service_;
  std::function<CallRecord(int64_t)> answer_;
  std::vector<absl::Duration> started_;
};

std::function<absl::Duration(int64_t)> Always(absl::Duration duration) {
  return [duration](int64_t) { return duration; };
}

TEST(LoadLoop, ClosedLoopKeepsCallsInFlight) {
  FakeClock clock;
  FakeServer server(clock, Always(absl::Milliseconds(100)));
  LoadLoop loop(server.Starter(), {.in_flight = 3}, clock);
  const LoopOutcome outcome = loop.Run({.duration = absl::Seconds(1)});
  EXPECT_EQ(outcome.measurement.ok(), 30);
  EXPECT_EQ(outcome.elapsed, absl::Seconds(1));
  EXPECT_EQ(outcome.measurement.latencies().max(), absl::Milliseconds(100));
  EXPECT_EQ(outcome.unsent, 0);
  EXPECT_FALSE(outcome.interrupted);
}

TEST(LoadLoop, CallsInFlightAtTheEndCount) {
  FakeClock clock;
  FakeServer server(clock, Always(absl::Milliseconds(400)));
  LoadLoop loop(server.Starter(), {.in_flight = 1}, clock);
  const LoopOutcome outcome = loop.Run({.duration = absl::Seconds(1)});
  EXPECT_EQ(outcome.measurement.ok(), 3);
  EXPECT_EQ(outcome.elapsed, absl::Milliseconds(1200));
}

TEST(LoadLoop, CountEndsIt) {
  FakeClock clock;
  FakeServer server(clock, Always(absl::Milliseconds(100)));
  LoadLoop loop(server.Starter(), {.in_flight = 4}, clock);
  const LoopOutcome outcome = loop.Run({.count = 10});
  EXPECT_EQ(outcome.measurement.ok(), 10);
  EXPECT_EQ(outcome.elapsed, absl::Milliseconds(300));
  EXPECT_EQ(loop.Run({.count = 2}).measurement.ok(), 2) << "a loop can run again";
}

TEST(LoadLoop, OpenLoopSendsOnTime) {
  FakeClock clock;
  FakeServer server(clock, Always(absl::Milliseconds(30)));
  LoadLoop loop(server.Starter(), {.in_flight = 100, .rate = 4.0}, clock);
  const LoopOutcome outcome = loop.Run({.duration = absl::Seconds(1)});
  EXPECT_THAT(server.started(), ElementsAre(absl::ZeroDuration(), absl::Milliseconds(250), absl::Milliseconds(500),
                                            absl::Milliseconds(750)));
  EXPECT_EQ(outcome.elapsed, absl::Seconds(1)) << "4 calls in 1 s are 4 a second, although the last ends at 780 ms";
  EXPECT_EQ(outcome.unsent, 0);
  EXPECT_EQ(loop.Run({.count = 5}).elapsed, absl::Milliseconds(1250));
}

// The server stalls once for a second: ten calls were due meanwhile, and their wait must be seen although they could
// not be sent.
TEST(LoadLoop, LatencyCountsFromWhenACallWasDue) {
  FakeClock clock;
  FakeServer server(clock, [](int64_t call) { return absl::Milliseconds(call == 5 ? 1000 : 10); });
  LoadLoop loop(server.Starter(), {.in_flight = 1, .rate = 10.0}, clock);
  const LoopOutcome outcome = loop.Run({.duration = absl::Seconds(4)});
  EXPECT_EQ(outcome.measurement.ok(), 40);
  EXPECT_EQ(outcome.measurement.latencies().max(), absl::Seconds(1));
  // Calls 6 to 16 were late by 900 + 10, 800 + 20, ... ms: 10 of 40 calls took longer than 100 ms.
  EXPECT_GT(outcome.measurement.latencies().Percentile(80), absl::Milliseconds(100));
  EXPECT_EQ(outcome.measurement.latencies().Percentile(50), absl::Milliseconds(10));
}

TEST(LoadLoop, CallsThatWereDueAndNotSentAreCounted) {
  FakeClock clock;
  FakeServer server(clock, Always(absl::Seconds(1)));
  LoadLoop loop(server.Starter(), {.in_flight = 2, .rate = 10.0}, clock);
  const LoopOutcome outcome = loop.Run({.duration = absl::Seconds(2)});
  EXPECT_EQ(outcome.measurement.ok() + outcome.unsent, 20);
  EXPECT_EQ(outcome.measurement.ok(), 4);
}

TEST(LoadLoop, EveryFailureIsCountedByItsCode) {
  FakeClock clock;
  FakeServer server(clock, Always(absl::Milliseconds(10)));
  server.AnswerWith([](int64_t call) -> CallRecord {
    if (call % 5 == 1) return {.status = absl::ResourceExhaustedError("full")};
    if (call % 5 == 2) return {.status = absl::InvalidArgumentError("bad")};
    return {.status = absl::OkStatus(), .multiply_adds = 7, .bytes = 100};
  });
  LoadLoop loop(server.Starter(), {.in_flight = 3}, clock);
  const LoopOutcome outcome = loop.Run({.count = 100});
  EXPECT_EQ(outcome.measurement.ok(), 60);
  EXPECT_EQ(outcome.measurement.failed(), 40);
  EXPECT_THAT(outcome.measurement.errors(), ElementsAre(Pair(absl::StatusCode::kInvalidArgument, 20),
                                                        Pair(absl::StatusCode::kResourceExhausted, 20)));
  EXPECT_EQ(outcome.measurement.messages().at(absl::StatusCode::kInvalidArgument), "bad");
  EXPECT_EQ(outcome.measurement.multiply_adds(), 420);
  EXPECT_EQ(outcome.measurement.bytes(), 6000);
}

TEST(LoadLoop, AServerThatIsGoneIsNotHammered) {
  FakeClock clock;
  FakeServer server(clock, Always(absl::Microseconds(10)));
  server.AnswerWith([](int64_t) -> CallRecord { return {.status = absl::UnavailableError("gone")}; });
  LoadLoop loop(server.Starter(), {.in_flight = 1}, clock);
  const LoopOutcome outcome = loop.Run({.duration = absl::Seconds(1)});
  EXPECT_LE(outcome.measurement.failed(), 21);
  EXPECT_GE(outcome.measurement.failed(), 19);
}

TEST(LoadLoop, AnAnswerBeforeTheStarterReturns) {
  FakeClock clock;
  LoadLoop loop(
      [](int64_t, const LoadLoop::Done& done) {
        done({.status = absl::InvalidArgumentError("at once")});
        return [] {};
      },
      {.in_flight = 2}, clock);
  EXPECT_EQ(loop.Run({.count = 10}).measurement.failed(), 10);
}

TEST(LoadLoop, InterruptionKeepsWhatWasMeasured) {
  FakeClock clock;
  FakeServer server(clock, [](int64_t call) { return absl::Milliseconds(call < 6 ? 100 : 60000); });
  const absl::Time interruption = absl::UnixEpoch() + absl::Milliseconds(550);
  LoadLoop loop(server.Starter(), {.in_flight = 2, .interrupted = [&] { return clock.Now() >= interruption; }}, clock);
  const LoopOutcome outcome = loop.Run({.duration = absl::Hours(1)});
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_EQ(outcome.measurement.ok(), 6);
  EXPECT_EQ(outcome.measurement.failed(), 0);
  EXPECT_EQ(outcome.abandoned, 2);
  EXPECT_EQ(outcome.elapsed, absl::Milliseconds(550));
}

TEST(LoadLoop, ReportsProgress) {
  FakeClock clock;
  FakeServer server(clock, Always(absl::Milliseconds(100)));
  int64_t last = 0;
  LoadLoop loop(server.Starter(),
                {.in_flight = 1, .progress = [&](const LoadMeasurement& seen, absl::Duration) { last = seen.ok(); }},
                clock);
  loop.Run({.count = 10});
  EXPECT_GE(last, 9);
}

TEST(ArrivalSchedule, ConstantRate) {
  const absl::Time start = absl::UnixEpoch();
  const ArrivalSchedule schedule(start, 4);
  EXPECT_EQ(schedule.At(0), start);
  EXPECT_EQ(schedule.At(3), start + absl::Milliseconds(750));
  EXPECT_EQ(schedule.DueBefore(start), 0);
  EXPECT_EQ(schedule.DueBefore(start + absl::Milliseconds(1)), 1);
  EXPECT_EQ(schedule.DueBefore(start + absl::Milliseconds(250)), 1);
  EXPECT_EQ(schedule.DueBefore(start + absl::Seconds(1)), 4);
  EXPECT_EQ(schedule.DueBefore(start - absl::Seconds(1)), 0);
}

TEST(LoadLoop, KindsAreMeasuredApart) {
  FakeClock clock;
  FakeServer server(clock, [](int64_t call) { return absl::Milliseconds(call % 3 == 0 ? 100 : 10); });
  server.AnswerWith([](int64_t call) {
    return CallRecord{.status = call == 4 ? absl::InternalError("bad") : absl::OkStatus(),
                      .kind = call % 3 == 0 ? 1u : 0u};
  });
  LoadLoop loop(server.Starter(), {.kinds = 2}, clock);
  const LoopOutcome outcome = loop.Run({.count = 12});
  EXPECT_EQ(outcome.measurement.ok(), 11);
  ASSERT_EQ(outcome.by_kind.size(), 2u);
  EXPECT_EQ(outcome.by_kind[0].ok(), 7);
  EXPECT_EQ(outcome.by_kind[0].failed(), 1);
  EXPECT_EQ(outcome.by_kind[0].latencies().max(), absl::Milliseconds(10));
  EXPECT_EQ(outcome.by_kind[1].ok(), 4);
  EXPECT_EQ(outcome.by_kind[1].latencies().Percentile(1), absl::Milliseconds(100));
}

}  // namespace
}  // namespace attend::client
