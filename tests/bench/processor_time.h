// How much of the processors this process and others used: figures measured beside busy neighbours mean little.
#ifndef ATTEND_TESTS_BENCH_PROCESSOR_TIME_H_
#define ATTEND_TESTS_BENCH_PROCESSOR_TIME_H_

namespace attend::bench {

// Seconds by the wall clock, from an arbitrary start.
double WallSeconds();

// Seconds of processor time of this process, all of its threads together.
double ProcessorSeconds();

// Watches from its construction on.
class OtherLoad {
 public:
  OtherLoad();
  // The share of all processors' time that went to other processes, 0 to 1.
  double Share() const;

 private:
  const double start_;
  const double others_;  // seconds of theirs
};

}  // namespace attend::bench

#endif  // ATTEND_TESTS_BENCH_PROCESSOR_TIME_H_
