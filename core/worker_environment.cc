#include "core/worker_environment.h"

#include <omp.h>

namespace attend::core {

WorkerEnvironment::WorkerEnvironment() : threads_(omp_get_max_threads()) {
  std::fegetenv(&floating_point_);
  std::fesetenv(FE_DFL_ENV);
  omp_set_num_threads(1);
}

WorkerEnvironment::~WorkerEnvironment() {
  omp_set_num_threads(threads_);
  std::fesetenv(&floating_point_);
}

}  // namespace attend::core
