// How much of the processors this process used so far.
#ifndef ATTEND_TESTS_BENCH_PROCESSOR_TIME_H_
#define ATTEND_TESTS_BENCH_PROCESSOR_TIME_H_

namespace attend::bench {

// Seconds by the wall clock, from an arbitrary start.
double WallSeconds();

// Seconds of processor time of this process, all of its threads together.
double ProcessorSeconds();

}  // namespace attend::bench

#endif  // ATTEND_TESTS_BENCH_PROCESSOR_TIME_H_
