// How much of the processors this process and others used: figures measured beside busy neighbours mean little.
#ifndef ATTEND_TESTS_BENCH_PROCESSOR_TIME_H_
#define ATTEND_TESTS_BENCH_PROCESSOR_TIME_H_

#include <chrono>

namespace attend::bench {

// Processor time of this process so far.
std::chrono::duration<double> OwnProcessorTime();

// Watches from its construction on.
class OtherLoad {
 public:
  OtherLoad();
  // The share of all processors' time that went to other processes, 0 to 1.
  double Share() const;

 private:
  const std::chrono::steady_clock::time_point start_;
  const double machine_;  // seconds in use
  const double own_;
};

}  // namespace attend::bench

#endif  // ATTEND_TESTS_BENCH_PROCESSOR_TIME_H_
