// Error details as a server puts them into grpc-status-details-bin. For tests.
#ifndef ATTEND_CLIENT_SERIALIZED_DETAILS_H_
#define ATTEND_CLIENT_SERIALIZED_DETAILS_H_

#include <string>

#include "absl/time/time.h"
#include "attend/client/v1/error_details.pb.h"
#include "google/protobuf/any.pb.h"

namespace attend::client {

inline void AddDetail(const std::string& google_name, const google::protobuf::Message& detail,
                      attend::client::v1::Status& status) {
  google::protobuf::Any* any = status.add_details();
  any->set_type_url("type.googleapis.com/" + google_name);
  any->set_value(detail.SerializeAsString());
}

// A google.rpc.Status with a RetryInfo.
inline std::string SerializedRetryDelay(absl::Duration delay) {
  attend::client::v1::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(absl::IDivDuration(delay, absl::Seconds(1), &delay));
  retry.mutable_retry_delay()->set_nanos(static_cast<int>(absl::ToInt64Nanoseconds(delay)));
  attend::client::v1::Status status;
  AddDetail("google.rpc.RetryInfo", retry, status);
  return status.SerializeAsString();
}

// A google.rpc.Status with a BadRequest and an ErrorInfo.
inline std::string SerializedViolation(const std::string& field, const std::string& reason, const std::string& value,
                                       const std::string& limit) {
  attend::client::v1::BadRequest bad_request;
  bad_request.add_field_violations()->set_field(field);
  attend::client::v1::ErrorInfo violation;
  violation.set_domain("attend.v1");
  violation.set_reason(reason);
  (*violation.mutable_metadata())["value"] = value;
  (*violation.mutable_metadata())["limit"] = limit;
  attend::client::v1::Status status;
  AddDetail("google.rpc.BadRequest", bad_request, status);
  AddDetail("google.rpc.ErrorInfo", violation, status);
  return status.SerializeAsString();
}

}  // namespace attend::client

#endif  // ATTEND_CLIENT_SERIALIZED_DETAILS_H_
