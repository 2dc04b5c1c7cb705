// The standard process_* metrics, which prometheus-cpp does not have.
#ifndef ATTEND_SERVER_PROCESS_METRICS_H_
#define ATTEND_SERVER_PROCESS_METRICS_H_

#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace attend::server {

// Of this process, from /proc/self; what cannot be read is left out. Thread-safe.
class ProcessMetrics : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_PROCESS_METRICS_H_
