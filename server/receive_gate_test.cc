#include "server/receive_gate.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_clock.h"

namespace attend::server {
namespace {

using ::attend::testing::FakeClock;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kBudget = 256 * kMiB;

class ReceiveGateTest : public ::testing::Test {
 protected:
  // A call that notes its name when it is let in, at once or later.
  ReceiveGate::Visit& Enter(const std::string& name, const std::string& client, std::optional<int64_t> announced) {
    ReceiveGate::Visit& visit = visits_.emplace_back();
    const auto entry = gate_.Enter(visit, client, announced, [this, name] { let_in_.push_back(name); });
    if (!entry.ok()) {
      refused_.push_back(name);
    } else if (*entry == ReceiveGate::Entry::kLetIn) {
      let_in_.push_back(name);
    }
    return visit;
  }

  std::vector<std::string> TakeLetIn() { return std::exchange(let_in_, {}); }

  FakeClock clock_;
  Backlog backlog_{{.max_queued_requests = 100, .clock = &clock_}};
  ReceiveGate gate_{{.budget_bytes = kBudget, .clock = &clock_}, backlog_};
  std::vector<std::string> let_in_;
  std::vector<std::string> refused_;
  std::deque<ReceiveGate::Visit> visits_;
};

TEST_F(ReceiveGateTest, ChargesWhatIsAnnouncedElseFourMiB) {
  ReceiveGate::Visit& announced = Enter("announced", "a", 10 * kMiB);
  EXPECT_EQ(gate_.receiving_bytes(), 10 * kMiB);
  ReceiveGate::Visit& silent = Enter("silent", "b", std::nullopt);
  EXPECT_EQ(gate_.receiving_bytes(), 14 * kMiB);
  EXPECT_THAT(TakeLetIn(), ElementsAre("announced", "silent"));
  silent.Arrived(100 * kMiB);
  EXPECT_EQ(gate_.receiving_bytes(), 110 * kMiB);
  announced.Arrived(9 * kMiB);
  EXPECT_EQ(gate_.receiving_bytes(), 109 * kMiB);
  EXPECT_FALSE(silent.Leave());
  EXPECT_FALSE(announced.Leave());
  EXPECT_FALSE(announced.Leave());
  EXPECT_EQ(gate_.receiving_bytes(), 0);
  EXPECT_EQ(backlog_.queued(), 0);
}

TEST_F(ReceiveGateTest, OneClientHoldsAtMostHalf) {
  Enter("first", "greedy", 100 * kMiB);
  ReceiveGate::Visit& second = Enter("second", "greedy", 29 * kMiB);
  EXPECT_THAT(TakeLetIn(), ElementsAre("first"));
  EXPECT_EQ(gate_.waiting(), 1);
  EXPECT_EQ(backlog_.queued(), 1);
  Enter("other", "modest", 29 * kMiB);  // is not held up by it
  EXPECT_THAT(TakeLetIn(), ElementsAre("other"));
  EXPECT_TRUE(second.Leave());
  EXPECT_EQ(gate_.waiting(), 0);
  Enter("third", "greedy", 28 * kMiB);
  EXPECT_THAT(TakeLetIn(), ElementsAre("third"));
}

TEST_F(ReceiveGateTest, AClientThatHoldsNothingMayStartACallOfAnySize) {
  ReceiveGate::Visit& whole = Enter("whole", "a", kBudget);
  EXPECT_THAT(TakeLetIn(), ElementsAre("whole"));
  Enter("next", "b", std::nullopt);
  EXPECT_THAT(TakeLetIn(), IsEmpty());
  whole.Leave();
  EXPECT_THAT(TakeLetIn(), ElementsAre("next"));
}

TEST_F(ReceiveGateTest, ACallBeyondTheBudgetWaitsUntilItIsAlone) {
  ReceiveGate::Visit& other = Enter("other", "a", kMiB);
  Enter("too much", "b", 10 * kBudget);
  EXPECT_THAT(TakeLetIn(), ElementsAre("other"));
  other.Leave();
  EXPECT_THAT(TakeLetIn(), ElementsAre("too much"));
  EXPECT_EQ(gate_.receiving_bytes(), kBudget);
}

TEST_F(ReceiveGateTest, ClientsTakeTurnsAndTheirCallsKeepTheirOrder) {
  ReceiveGate::Visit& whole = Enter("whole", "x", kBudget);
  Enter("a1", "a", 10 * kMiB);
  Enter("a2", "a", 10 * kMiB);
  Enter("a3", "a", 10 * kMiB);
  Enter("b1", "b", 10 * kMiB);
  Enter("b2", "b", 10 * kMiB);
  Enter("c1", "c", 10 * kMiB);
  EXPECT_THAT(TakeLetIn(), ElementsAre("whole"));
  whole.Leave();
  EXPECT_THAT(TakeLetIn(), ElementsAre("a1", "b1", "c1", "a2", "b2", "a3"));
}

TEST_F(ReceiveGateTest, LargeCallsLeaveRoomForSmallOnes) {
  for (const char* const client : {"a", "b", "c"}) Enter(client, client, 64 * kMiB);
  Enter("d", "d", 64 * kMiB);  // would leave nothing
  EXPECT_THAT(TakeLetIn(), ElementsAre("a", "b", "c"));
  clock_.Advance(absl::Seconds(10));
  // They pass it however long it waits, as long as they keep to the reserve of 16 MiB.
  for (const char* const client : {"e", "f", "g", "h", "i"}) Enter(client, client, 4 * kMiB);
  EXPECT_THAT(TakeLetIn(), ElementsAre("e", "f", "g", "h"));
}

TEST_F(ReceiveGateTest, AfterASecondNothingPassesACallThatNeedsTheRoom) {
  ReceiveGate::Visit& large = Enter("large", "a", 100 * kMiB);
  Enter("whole", "b", kBudget);
  Enter("small", "c", kMiB);
  EXPECT_THAT(TakeLetIn(), ElementsAre("large", "small"));
  Enter("middle", "d", 5 * kMiB);  // is not small
  EXPECT_THAT(TakeLetIn(), IsEmpty());
  clock_.Advance(absl::Seconds(1));
  Enter("late", "e", kMiB);
  EXPECT_THAT(TakeLetIn(), IsEmpty());
  large.Leave();
  EXPECT_THAT(TakeLetIn(), IsEmpty());
  visits_[2].Leave();  // the small one
  EXPECT_THAT(TakeLetIn(), ElementsAre("whole"));
}

TEST_F(ReceiveGateTest, ACallThatLeavesWhileItWaitsIsNeverCalled) {
  ReceiveGate::Visit& whole = Enter("whole", "a", kBudget);
  ReceiveGate::Visit& gone = Enter("gone", "b", kMiB);
  Enter("next", "c", kMiB);
  EXPECT_TRUE(gone.Leave());
  EXPECT_FALSE(gone.Leave());
  whole.Leave();
  EXPECT_THAT(TakeLetIn(), ElementsAre("whole", "next"));
}

TEST_F(ReceiveGateTest, RefusesCallsThatMayNotWait) {
  Backlog narrow({.max_queued_requests = 1, .clock = &clock_});
  ReceiveGate gate({.budget_bytes = kBudget, .clock = &clock_}, narrow);
  const auto ignore = [] {};
  ReceiveGate::Visit inside, waiting, refused;
  EXPECT_EQ(*gate.Enter(inside, "a", kBudget, ignore), ReceiveGate::Entry::kLetIn);
  EXPECT_EQ(*gate.Enter(waiting, "b", kMiB, ignore), ReceiveGate::Entry::kWaiting);
  const auto entry = gate.Enter(refused, "c", kMiB, ignore);
  EXPECT_EQ(entry.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(SuggestedRetryDelay(entry.status()).has_value());
  EXPECT_FALSE(refused.Leave());
  EXPECT_EQ(gate.waiting(), 1);
  EXPECT_EQ(narrow.queued(), 1);
  inside.Leave();
  EXPECT_EQ(narrow.queued(), 0);
  EXPECT_EQ(gate.receiving_bytes(), kMiB);
}

TEST_F(ReceiveGateTest, AVisitThatNeverEnteredLeavesAndArrivesInPeace) {
  ReceiveGate::Visit visit;
  visit.Arrived(kMiB);
  EXPECT_FALSE(visit.Leave());
}

TEST_F(ReceiveGateTest, TheCallbackMayOwnTheCallAndUseTheGate) {
  struct Call {
    ReceiveGate::Visit visit;
  };
  ReceiveGate::Visit& whole = Enter("whole", "a", kBudget);
  auto owned = std::make_shared<Call>();
  std::weak_ptr<Call> watched = owned;
  Call* const raw = owned.get();
  ASSERT_TRUE(gate_
                  .Enter(raw->visit, "b", kMiB,
                         [this, owned] {
                           owned->visit.Arrived(2 * kMiB);
                           owned->visit.Leave();
                           Enter("from callback", "c", kMiB);
                         })
                  .ok());
  owned.reset();
  whole.Leave();
  EXPECT_TRUE(watched.expired());
  EXPECT_THAT(TakeLetIn(), ElementsAre("whole", "from callback"));
  // Cancelled while it waits, with the callback as its last owner.
  visits_.back().Leave();
  Enter("again", "a", kBudget);
  auto cancelled = std::make_shared<Call>();
  watched = cancelled;
  Call* const waiting = cancelled.get();
  ASSERT_TRUE(gate_.Enter(waiting->visit, "b", kMiB, [cancelled] {}).ok());
  cancelled.reset();
  EXPECT_TRUE(waiting->visit.Leave());
  EXPECT_TRUE(watched.expired());
}

// Threads enter, arrive and leave at random; all is given back, and the budget holds for what is announced truly.
TEST_F(ReceiveGateTest, ChargesReturnToZeroUnderAStorm) {
  constexpr int64_t kSmallBudget = 64 * 1000;
  Backlog backlog({.max_queued_requests = 64, .clock = &clock_});
  ReceiveGate gate({.budget_bytes = kSmallBudget, .clock = &clock_}, backlog);
  struct Call {
    ReceiveGate::Visit visit;
    std::atomic<int> let_in = 0;
  };
  std::atomic<int64_t> overruns = 0;
  std::atomic<int64_t> wrong = 0;
  const auto run = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::deque<std::shared_ptr<Call>> calls;
    const auto leave = [&](Call& call) {
      const bool never_called = call.visit.Leave();
      if (never_called && call.let_in > 0) ++wrong;
    };
    for (int i = 0; i < 3000; ++i) {
      auto call = std::make_shared<Call>();
      const auto entry = gate.Enter(call->visit, std::string(1, static_cast<char>('a' + random() % 5)),
                                    random() % kSmallBudget, [call] { ++call->let_in; });
      if (gate.receiving_bytes() > kSmallBudget) ++overruns;
      if (!entry.ok() && call->let_in > 0) ++wrong;
      calls.push_back(std::move(call));
      if (random() % 16 == 0) clock_.Advance(absl::Milliseconds(100));
      while (calls.size() > random() % 8) {
        leave(*calls.front());
        calls.pop_front();
      }
    }
    for (const auto& call : calls) leave(*call);
  };
  const unsigned seed = static_cast<unsigned>(::testing::UnitTest::GetInstance()->random_seed());
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) threads.emplace_back(run, seed + t);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(gate.receiving_bytes(), 0);
  EXPECT_EQ(gate.waiting(), 0);
  EXPECT_EQ(backlog.queued(), 0);
  EXPECT_EQ(overruns, 0);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace attend::server
