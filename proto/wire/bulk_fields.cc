#include "proto/wire/bulk_fields.h"

#include <array>

#include "attend/v1/attention.pb.h"

namespace attend::wire {
namespace {

using v1::AttendRequest;
using v1::AttendResponse;
using v1::AttentionOptions;

constexpr std::array<BulkField, 1> DataOf(int bulk_index) { return {{{v1::Tensor::kDataFieldNumber, bulk_index, {}}}}; }

constexpr std::array kQuery = DataOf(kQueryData);
constexpr std::array kKey = DataOf(kKeyData);
constexpr std::array kValue = DataOf(kValueData);
constexpr std::array kMask = DataOf(kMaskData);
constexpr std::array kBias = DataOf(kBiasData);
constexpr std::array<BulkField, 2> kOptions = {{
    {AttentionOptions::kMaskFieldNumber, -1, kMask},
    {AttentionOptions::kBiasFieldNumber, -1, kBias},
}};
constexpr std::array<BulkField, 4> kRequest = {{
    {AttendRequest::kQueryFieldNumber, -1, kQuery},
    {AttendRequest::kKeyFieldNumber, -1, kKey},
    {AttendRequest::kValueFieldNumber, -1, kValue},
    {AttendRequest::kOptionsFieldNumber, -1, kOptions},
}};

constexpr std::array kOutput = DataOf(kOutputData);
constexpr std::array kWeights = DataOf(kWeightsData);
constexpr std::array kScores = DataOf(kScoresData);
constexpr std::array kLogsumexp = DataOf(kLogsumexpData);
constexpr std::array<BulkField, 4> kResponse = {{
    {AttendResponse::kOutputFieldNumber, -1, kOutput},
    {AttendResponse::kWeightsFieldNumber, -1, kWeights},
    {AttendResponse::kScoresFieldNumber, -1, kScores},
    {AttendResponse::kLogsumexpFieldNumber, -1, kLogsumexp},
}};

}  // namespace

BulkFields AttendRequestBulkFields() { return {kRequest, kRequestBulkCount}; }

BulkFields AttendResponseBulkFields() { return {kResponse, kResponseBulkCount}; }

}  // namespace attend::wire
