// A stub whose attempts a test answers by hand. For tests.
#ifndef ATTEND_CLIENT_FAKE_STUB_H_
#define ATTEND_CLIENT_FAKE_STUB_H_

#include <functional>
#include <utility>
#include <vector>

#include "client/stub.h"

namespace attend::client {

// Not thread-safe.
class FakeStub final : public Stub {
 public:
  std::function<void()> Start(CallAttempt attempt, std::function<void(AttemptOutcome)> done) override {
    const size_t index = attempts_.size();
    attempts_.push_back(std::move(attempt));
    done_.push_back(std::move(done));
    return [this, index] { Answer(index, {.status = absl::CancelledError("Cancelled")}); };
  }

  Connectivity connectivity() const override { return connectivity_; }
  void set_connectivity(Connectivity connectivity) { connectivity_ = connectivity; }

  // Ends attempt `index`, unless it has ended.
  void Answer(size_t index, AttemptOutcome outcome) {
    const auto done = std::exchange(done_.at(index), nullptr);
    if (done) done(std::move(outcome));
  }
  void AnswerLast(AttemptOutcome outcome) { Answer(attempts_.size() - 1, std::move(outcome)); }

  const std::vector<CallAttempt>& attempts() const { return attempts_; }

 private:
  Connectivity connectivity_ = Connectivity::kReady;
  std::vector<CallAttempt> attempts_;
  std::vector<std::function<void(AttemptOutcome)>> done_;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_FAKE_STUB_H_
