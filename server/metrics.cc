#include "server/metrics.h"

#include <array>
#include <iterator>
#include <utility>

#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"
#include "server/process_metrics.h"

namespace attend::server {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;
using prometheus::MetricFamily;
using Buckets = Histogram::BucketBoundaries;

constexpr std::array<const char*, 5> kMethods = {"Attend", "GetServerInfo", "Check", "Watch", "other"};
constexpr std::array<const char*, 7> kReasons = {"queue_full", "message_too_large", "never_admissible", "draining",
                                                 "deadline",   "receive_timeout",   "unauthenticated"};
constexpr std::array<const char*, 4> kStages = {"receiving", "queued", "computing", "sending"};

// 1 ms to 60 s, and finer below.
Buckets Seconds() {
  return {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
}
Buckets Powers(double first, double factor, int count) {
  Buckets buckets;
  for (double bound = first; count > 0; --count, bound *= factor) buckets.push_back(bound);
  return buckets;
}
Buckets Bytes() { return Powers(1024, 4, 11); }  // 1 KiB to 1 GiB
Buckets Lengths() { return Powers(1, 4, 10); }   // 1 to 262,144

// The code of `status` as Prometheus' gRPC exporters write it: "OK", "NOT_FOUND".
std::string CodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }

// Adds `value` to `families`, to the last one if it has the same name.
void Collect(const LiveValue& value, std::vector<MetricFamily>& families) {
  prometheus::ClientMetric metric;
  if (value.label) metric.label.push_back({value.label->first, value.label->second});
  if (value.is_counter) {
    metric.counter.value = value.read();
  } else {
    metric.gauge.value = value.read();
  }
  if (families.empty() || families.back().name != value.name) {
    const auto type = value.is_counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
    families.push_back({value.name, value.help, type, {}});
  }
  families.back().metric.push_back(metric);
}

}  // namespace

// The families, and of each the series that exist: all of them from the start, so that a rate has a first value.
class Metrics::Registered {
 public:
  explicit Registered(const BuildIdentity& identity)
      : requests_(BuildCounter().Name("attend_requests_total").Help("Calls that have ended.").Register(registry_)),
        request_duration_(
            AddHistogram("attend_request_duration_seconds", "From a call's headers to its end.", Seconds())),
        receive_duration_(
            AddHistogram("attend_receive_duration_seconds", "From a call's headers to its last byte.", Seconds())),
        queue_duration_(AddHistogram("attend_queue_duration_seconds",
                                     "From a request's last byte to the first work on it.", Seconds())),
        compute_duration_(AddHistogram("attend_compute_duration_seconds",
                                       "From a request's first to its last work item.", Seconds())),
        refusal_duration_(AddHistogram(
            "attend_refusal_duration_seconds",
            "From the headers, or the last byte where only the message shows it, to the refusal.", Seconds())),
        request_bytes_(AddHistogram("attend_request_bytes", "Sizes of requests.", Bytes())),
        response_bytes_(AddHistogram("attend_response_bytes", "Sizes of responses.", Bytes())),
        query_length_(AddHistogram("attend_query_length", "Queries per batch element and head.", Lengths())),
        key_length_(AddHistogram("attend_key_length", "Keys per batch element and head.", Lengths())),
        multiply_adds_(BuildCounter()
                           .Name("attend_multiply_adds_total")
                           .Help("Multiply-adds of matrix products, computed.")
                           .Register(registry_)
                           .Add({})) {
    AddSeries("attend_rejected_total", "Requests refused before any work on them.", "reason", kReasons, rejected_);
    AddSeries("attend_cancelled_total", "Requests whose caller went away or whose deadline passed.", "stage", kStages,
              cancelled_);
    BuildGauge()
        .Name("attend_build_info")
        .Help("What this program is; always 1.")
        .Register(registry_)
        .Add({{"version", identity.version},
              {"onednn_version", identity.onednn_version},
              {"instruction_set", identity.instruction_set}})
        .Set(1);
  }

  Counter& requests(Method method, absl::StatusCode code) {
    return requests_.Add({{"method", kMethods[static_cast<size_t>(method)]}, {"code", CodeName(code)}});
  }

 private:
  friend class Metrics;

  Histogram& AddHistogram(const char* name, const char* help, const Buckets& buckets) {
    return BuildHistogram().Name(name).Help(help).Register(registry_).Add({}, buckets);
  }

  template <size_t kCount>
  void AddSeries(const char* name, const char* help, const char* label, const std::array<const char*, kCount>& values,
                 std::array<Counter*, kCount>& series) {
    Family<Counter>& family = BuildCounter().Name(name).Help(help).Register(registry_);
    for (size_t i = 0; i < kCount; ++i) series[i] = &family.Add({{label, values[i]}});
  }

  prometheus::Registry registry_;
  Family<Counter>& requests_;
  Histogram& request_duration_;
  Histogram& receive_duration_;
  Histogram& queue_duration_;
  Histogram& compute_duration_;
  Histogram& refusal_duration_;
  Histogram& request_bytes_;
  Histogram& response_bytes_;
  Histogram& query_length_;
  Histogram& key_length_;
  Counter& multiply_adds_;
  std::array<Counter*, kReasons.size()> rejected_;
  std::array<Counter*, kStages.size()> cancelled_;
  std::vector<LiveValue> live_;
};

Metrics::Metrics(const BuildIdentity& identity) : registered_(std::make_unique<Registered>(identity)) {}
Metrics::~Metrics() = default;

void Metrics::AddLive(LiveValue value) { registered_->live_.push_back(std::move(value)); }

void Metrics::CountRequest(Method method, absl::StatusCode code, absl::Duration duration) {
  registered_->requests(method, code).Increment();
  if (method == Method::kAttend) registered_->request_duration_.Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::Observe(const RequestMeasures& measures) {
  registered_->receive_duration_.Observe(absl::ToDoubleSeconds(measures.receive));
  registered_->queue_duration_.Observe(absl::ToDoubleSeconds(measures.queue));
  registered_->compute_duration_.Observe(absl::ToDoubleSeconds(measures.compute));
  registered_->request_bytes_.Observe(static_cast<double>(measures.request_bytes));
  registered_->response_bytes_.Observe(static_cast<double>(measures.response_bytes));
  registered_->query_length_.Observe(static_cast<double>(measures.query_length));
  registered_->key_length_.Observe(static_cast<double>(measures.key_length));
}

void Metrics::CountMultiplyAdds(int64_t multiply_adds) {
  registered_->multiply_adds_.Increment(static_cast<double>(multiply_adds));
}

void Metrics::CountRejected(RejectReason reason) { registered_->rejected_[static_cast<size_t>(reason)]->Increment(); }

void Metrics::ObserveRefusal(absl::Duration duration) {
  registered_->refusal_duration_.Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::CountCancelled(CallStage stage) { registered_->cancelled_[static_cast<size_t>(stage)]->Increment(); }

std::string Metrics::Text() const {
  std::vector<MetricFamily> families = registered_->registry_.Collect();
  for (const LiveValue& value : registered_->live_) Collect(value, families);
  std::vector<MetricFamily> process = ProcessMetrics().Collect();
  std::move(process.begin(), process.end(), std::back_inserter(families));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace attend::server
