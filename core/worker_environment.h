// What is a setting of each thread and decides what a computation gives: how numbers are rounded, whether denormal ones
// count, and the number of OpenMP threads that oneDNN's primitives use.
#ifndef ATTEND_CORE_WORKER_ENVIRONMENT_H_
#define ATTEND_CORE_WORKER_ENVIRONMENT_H_

#include <cfenv>

namespace attend::core {

// Makes a caller's thread compute as workers do, for as long as it exists. Made and destroyed on that thread.
class WorkerEnvironment {
 public:
  WorkerEnvironment();
  ~WorkerEnvironment();
  WorkerEnvironment(const WorkerEnvironment&) = delete;
  WorkerEnvironment& operator=(const WorkerEnvironment&) = delete;

 private:
  const int threads_;
  std::fenv_t floating_point_;
};

}  // namespace attend::core

#endif  // ATTEND_CORE_WORKER_ENVIRONMENT_H_
