#include "server/admission.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/violation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_clock.h"

namespace attend::server {
namespace {

using ::attend::testing::FakeClock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kBudget = 6400;

class AdmissionTest : public ::testing::Test {
 protected:
  // Notes the request's name when it is admitted, at once or later, and "name: CODE" when it is not.
  Admission::Reservation& Admit(const std::string& name, Admission::Request request) {
    Admission::Reservation& reservation = reservations_.emplace_back();
    const auto note = [this, name](const absl::Status& status) {
      decided_.push_back(status.ok() ? name : name + ": " + absl::StatusCodeToString(status.code()));
    };
    const auto decision = admission_.Admit(reservation, std::move(request), note);
    if (!decision.ok() || *decision == Admission::Decision::kAdmitted) note(decision.status());
    return reservation;
  }
  Admission::Reservation& Admit(const std::string& name, const std::string& client, int64_t bytes) {
    return Admit(name, {.client = client, .bytes = bytes});
  }

  std::vector<std::string> TakeDecided() { return std::exchange(decided_, {}); }

  FakeClock clock_;
  Backlog backlog_{{.max_queued_requests = 8, .initial_rate = 1000, .clock = &clock_}};
  Admission admission_{{.memory_budget_bytes = kBudget, .clock = &clock_}, backlog_};
  std::vector<std::string> decided_;
  std::deque<Admission::Reservation> reservations_;
};

TEST_F(AdmissionTest, ReservesAndGivesBackExactly) {
  {
    Admission::Reservation reservation;
    EXPECT_EQ(*admission_.Admit(reservation, {.client = "a", .bytes = 1234}, [](const absl::Status&) {}),
              Admission::Decision::kAdmitted);
    EXPECT_EQ(admission_.reserved_bytes(), 1234);
  }
  EXPECT_EQ(admission_.reserved_bytes(), 0);
  Admission::Reservation& whole = Admit("whole", "a", kBudget);
  EXPECT_EQ(admission_.reserved_bytes(), kBudget);
  EXPECT_FALSE(whole.Release());
  EXPECT_FALSE(whole.Release());
  EXPECT_EQ(admission_.reserved_bytes(), 0);
}

TEST_F(AdmissionTest, MoreThanTheWholeBudgetIsTheCallersFault) {
  Admission::Reservation reservation;
  const auto decision =
      admission_.Admit(reservation, {.client = "a", .bytes = kBudget + 1, .largest_field = "results.weights"},
                       [](const absl::Status&) {});
  EXPECT_EQ(decision.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(decision.status().message()), HasSubstr("6401"));
  EXPECT_THAT(std::string(decision.status().message()), HasSubstr("6400"));
  const auto violation = core::GetViolation(decision.status());
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->field, "results.weights");
  EXPECT_EQ(violation->reason, "MEMORY_BUDGET_EXCEEDED");
  EXPECT_EQ(violation->value, "6401");
  EXPECT_EQ(violation->limit, "at most 6400");
  EXPECT_FALSE(reservation.Release());
  EXPECT_EQ(admission_.reserved_bytes(), 0);
}

TEST_F(AdmissionTest, WaitsForBytesThenIsToldOnce) {
  Admission::Reservation& first = Admit("first", "a", 4000);
  Admission::Reservation& second = Admit("second", "b", 4000);
  EXPECT_THAT(TakeDecided(), ElementsAre("first"));
  EXPECT_EQ(admission_.waiting(), 1);
  EXPECT_EQ(backlog_.queued(), 1);
  first.Release();
  EXPECT_THAT(TakeDecided(), ElementsAre("second"));
  EXPECT_EQ(admission_.waiting(), 0);
  EXPECT_EQ(backlog_.queued(), 0);
  EXPECT_EQ(admission_.reserved_bytes(), 4000);
  EXPECT_FALSE(second.Release());
}

TEST_F(AdmissionTest, ClientsTakeTurnsAndTheirRequestsKeepTheirOrder) {
  Admission::Reservation& whole = Admit("whole", "x", kBudget);
  for (const char* const name : {"a1", "a2", "a3"}) Admit(name, "a", 1000);
  for (const char* const name : {"b1", "b2"}) Admit(name, "b", 1000);
  Admit("c1", "c", 1000);
  TakeDecided();
  whole.Release();
  EXPECT_THAT(TakeDecided(), ElementsAre("a1", "b1", "c1", "a2", "b2", "a3"));
}

TEST_F(AdmissionTest, AWaitingRequestKeepsItsTurn) {
  Admission::Reservation& first = Admit("first", "a", 4000);
  Admit("large", "b", 6000);
  Admit("middle", "c", 100);  // 1/64 of the budget is not under it
  EXPECT_THAT(TakeDecided(), ElementsAre("first"));
  Admit("small", "d", 99);
  EXPECT_THAT(TakeDecided(), ElementsAre("small"));
  clock_.Advance(absl::Seconds(1));
  Admit("late", "e", 99);
  EXPECT_THAT(TakeDecided(), IsEmpty());
  reservations_[3].Release();
  first.Release();
  EXPECT_THAT(TakeDecided(), ElementsAre("large", "middle", "late"));
}

TEST_F(AdmissionTest, TheQueueIsBounded) {
  Admit("whole", "a", kBudget);
  for (int i = 0; i < 8; ++i) Admit("waiting", "b", 10);
  TakeDecided();
  Admission::Reservation refused;
  const auto decision = admission_.Admit(refused, {.client = "c", .bytes = 1}, [](const absl::Status&) {});
  EXPECT_EQ(decision.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(SuggestedRetryDelay(decision.status()).has_value());
  EXPECT_FALSE(refused.Release());
  EXPECT_EQ(admission_.waiting(), 8);
  EXPECT_EQ(backlog_.queued(), 8);
}

TEST_F(AdmissionTest, ARequestThatIsCancelledWhileItWaitsIsNeverCalled) {
  Admission::Reservation& first = Admit("first", "a", 4000);
  Admission::Reservation& gone = Admit("gone", "b", 6000);
  Admit("next", "c", 2000);
  TakeDecided();
  EXPECT_TRUE(gone.Release());
  EXPECT_THAT(TakeDecided(), ElementsAre("next"));  // it waited behind that one only
  EXPECT_FALSE(gone.Release());
  first.Release();
  EXPECT_THAT(TakeDecided(), IsEmpty());
  EXPECT_EQ(backlog_.queued(), 0);
}

TEST_F(AdmissionTest, DeadlinesPassWhileWaiting) {
  Admission::Reservation& whole = Admit("whole", "a", kBudget);
  Admission::Reservation& late =
      Admit("late", {.client = "b", .bytes = 10, .deadline = clock_.Now() + absl::Seconds(1)});
  Admit("patient", {.client = "c", .bytes = 10, .deadline = clock_.Now() + absl::Seconds(9)});
  TakeDecided();
  admission_.DropExpired();
  EXPECT_THAT(TakeDecided(), IsEmpty());
  clock_.Advance(absl::Seconds(1));
  admission_.DropExpired();
  EXPECT_THAT(TakeDecided(), ElementsAre("late: DEADLINE_EXCEEDED"));
  EXPECT_FALSE(late.Release());
  EXPECT_EQ(admission_.waiting(), 1);
  whole.Release();
  EXPECT_THAT(TakeDecided(), ElementsAre("patient"));
  EXPECT_EQ(admission_.reserved_bytes(), 10);
}

TEST_F(AdmissionTest, AnExpiredRequestIsNotAdmittedWhenItsTurnComes) {
  Admission::Reservation& whole = Admit("whole", "a", kBudget);
  Admit("late", {.client = "b", .bytes = 10, .deadline = clock_.Now() + absl::Seconds(1)});
  TakeDecided();
  clock_.Advance(absl::Seconds(2));
  whole.Release();
  EXPECT_THAT(TakeDecided(), ElementsAre("late: DEADLINE_EXCEEDED"));
  EXPECT_EQ(admission_.reserved_bytes(), 0);
  EXPECT_EQ(backlog_.queued(), 0);
}

TEST_F(AdmissionTest, HopelessAndPassedDeadlinesAreRefusedAtOnce) {
  for (int i = 0; i < 20; ++i) backlog_.RecordJob(1000, absl::Seconds(1));
  const absl::Time in_a_second = clock_.Now() + absl::Seconds(1);
  Admit("hopeless", {.client = "a", .bytes = 1, .multiply_adds = 5000, .deadline = in_a_second});
  Admit("possible", {.client = "a", .bytes = 1, .multiply_adds = 500, .deadline = in_a_second});
  Admit("passed", {.client = "a", .bytes = 1, .deadline = clock_.Now()});
  EXPECT_THAT(TakeDecided(), ElementsAre("hopeless: DEADLINE_EXCEEDED", "possible", "passed: DEADLINE_EXCEEDED"));
  EXPECT_EQ(admission_.reserved_bytes(), 1);
}

TEST_F(AdmissionTest, AReservationMayBeUsedAgain) {
  Admission::Reservation reservation;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(admission_.Admit(reservation, {.client = "a", .bytes = kBudget}, [](const absl::Status&) {}).ok());
    EXPECT_EQ(admission_.reserved_bytes(), kBudget);
    reservation.Release();
  }
}

TEST_F(AdmissionTest, TheCallbackMayOwnTheRequestAndUseTheAdmission) {
  Admission::Reservation& whole = Admit("whole", "a", kBudget);
  auto owned = std::make_shared<Admission::Reservation>();
  const std::weak_ptr<Admission::Reservation> watched = owned;
  Admission::Reservation* const raw = owned.get();
  ASSERT_TRUE(admission_
                  .Admit(*raw, {.client = "b", .bytes = 10},
                         [this, owned](const absl::Status&) {
                           owned->Release();
                           Admit("from callback", "c", 10);
                         })
                  .ok());
  owned.reset();
  whole.Release();
  EXPECT_TRUE(watched.expired());
  EXPECT_THAT(TakeDecided(), ElementsAre("whole", "from callback"));
}

// Threads admit and release at random: the budget is never overrun, and all bytes come back.
TEST_F(AdmissionTest, BytesReturnToZeroUnderAStorm) {
  struct Call {
    Admission::Reservation reservation;
    std::atomic<int> times_told = 0;
  };
  std::atomic<int64_t> overruns = 0;
  std::atomic<int64_t> wrong = 0;
  const auto run = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::deque<std::shared_ptr<Call>> calls;
    const auto release = [&](Call& call) {
      if (call.reservation.Release() && call.times_told > 0) ++wrong;
      if (call.times_told > 1) ++wrong;
    };
    for (int i = 0; i < 3000; ++i) {
      auto call = std::make_shared<Call>();
      Admission::Request request = {.client = std::string(1, static_cast<char>('a' + random() % 5)),
                                    .bytes = 1 + static_cast<int64_t>(random() % kBudget),
                                    .multiply_adds = static_cast<int64_t>(random() % 1000)};
      if (random() % 4 == 0) request.deadline = clock_.Now() + absl::Milliseconds(random() % 500);
      (void)admission_.Admit(call->reservation, std::move(request),
                             [call](const absl::Status&) { ++call->times_told; });
      if (admission_.reserved_bytes() > kBudget) ++overruns;
      calls.push_back(std::move(call));
      if (random() % 16 == 0) clock_.Advance(absl::Milliseconds(100));
      if (random() % 16 == 0) admission_.DropExpired();
      while (calls.size() > random() % 8) {
        release(*calls.front());
        calls.pop_front();
      }
    }
    for (const auto& call : calls) release(*call);
  };
  const unsigned seed = static_cast<unsigned>(::testing::UnitTest::GetInstance()->random_seed());
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) threads.emplace_back(run, seed + t);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admission_.reserved_bytes(), 0);
  EXPECT_EQ(admission_.waiting(), 0);
  EXPECT_EQ(backlog_.queued(), 0);
  EXPECT_EQ(overruns, 0);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace attend::server
