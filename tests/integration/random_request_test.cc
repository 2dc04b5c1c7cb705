// Whatever a message of known fields says, the server answers OK or INVALID_ARGUMENT, and computes the next request
// exactly as before. Most messages are nearly right, so that what they get wrong is found late.
#include <chrono>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include "attend/v1/attention.grpc.pb.h"
#include "attend/v1/attention.pb.h"
#include "tests/integration/server_test.h"

namespace attend::testing {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using v1::AttendRequest;
using v1::Tensor;

constexpr int kMessages = 3000;
constexpr int64_t kMostTensorBytes = 200'000;  // five of them stay under 1 MB

class RandomRequest {
 public:
  explicit RandomRequest(uint64_t seed) : random_(seed) {}

  AttendRequest Next() {
    request_.Clear();
    ChooseShape();
    AddTensors();
    AddOptions();
    AddResults();
    if (Chance(0.1)) request_.set_priority(static_cast<int>(Below(10)));
    if (Chance(0.1)) request_.set_request_id(std::to_string(Below(1000)));
    if (Chance(0.4)) {
      for (int spoiled = 1 + static_cast<int>(Below(3)); spoiled > 0; --spoiled) Spoil(request_);
    }
    return request_;
  }

 private:
  uint64_t Below(uint64_t limit) { return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random_); }
  bool Chance(double probability) { return std::bernoulli_distribution(probability)(random_); }
  template <typename T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[Below(values.size())];
  }

  // Small, or at the edges of everything.
  int64_t AnyInteger() {
    constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
    if (Chance(0.6)) return static_cast<int64_t>(Below(12)) - 2;
    return OneOf<int64_t>({0, 1, 64, 1024, 1025, int64_t{1} << 31, int64_t{1} << 40, int64_t{1} << 61, kLargest, -1,
                           -kLargest, std::numeric_limits<int64_t>::min()});
  }

  float AnyFloat() {
    if (Chance(0.9)) return std::normal_distribution<float>(0, 2)(random_);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    return OneOf({0.0F, -0.0F, 3.4e38F, -3.4e38F, 1e-45F, kInfinity, -kInfinity, std::nanf("")});
  }

  void ChooseShape() {
    layout_ = OneOf({v1::LAYOUT_UNSPECIFIED, v1::LAYOUT_BHND, v1::LAYOUT_BNHD, v1::LAYOUT_THD});
    type_ = OneOf({v1::DATA_TYPE_FLOAT32, v1::DATA_TYPE_BFLOAT16, v1::DATA_TYPE_FLOAT16});
    batch_ = static_cast<int64_t>(Below(4));
    kv_heads_ = 1 + static_cast<int64_t>(Below(3));
    query_heads_ = kv_heads_ * OneOf<int64_t>({1, 1, 2, 3});
    query_length_ = AnyLength();
    key_length_ = AnyLength();
    head_dim_ = AnyDim();
    value_dim_ = AnyDim();
    // Axes that are too long to have bytes are legal beside one that has no length.
    if (Chance(0.02)) {
      batch_ = int64_t{1} << 40;
      query_length_ = 0;
      key_length_ = 0;
    }
  }
  int64_t AnyLength() { return static_cast<int64_t>(Chance(0.8) ? Below(20) : Below(300)); }
  int64_t AnyDim() { return 1 + static_cast<int64_t>(Chance(0.8) ? Below(20) : Below(128)); }

  void Fill(v1::DataType type, const std::vector<int64_t>& shape, Tensor* tensor) {
    tensor->set_data_type(type);
    tensor->mutable_shape()->Assign(shape.begin(), shape.end());
    const int64_t element_bytes = type == v1::DATA_TYPE_BOOL ? 1 : type == v1::DATA_TYPE_FLOAT32 ? 4 : 2;
    double bytes = static_cast<double>(element_bytes);
    for (const int64_t length : shape) bytes *= static_cast<double>(length);
    if (bytes > kMostTensorBytes) return;  // without its bytes it is refused
    // Random bits are NaN now and then; halves of floats are ordinary numbers.
    const bool ordinary = Chance(0.8);
    std::string& data = *tensor->mutable_data();
    while (static_cast<double>(data.size()) < bytes) {
      const float number = AnyFloat();
      uint32_t bits = 0;
      std::memcpy(&bits, &number, sizeof(bits));
      if (!ordinary) bits = static_cast<uint32_t>(random_());
      if (ordinary && element_bytes == 2) bits >>= 16;
      data.append(reinterpret_cast<const char*>(&bits), static_cast<size_t>(element_bytes));
    }
  }

  std::vector<int64_t> InLayout(int64_t heads, int64_t length, int64_t dim) const {
    if (layout_ == v1::LAYOUT_THD) return {length, heads, dim};
    if (layout_ == v1::LAYOUT_BNHD) return {batch_, length, heads, dim};
    return {batch_, heads, length, dim};
  }

  void AddTensors() {
    Fill(type_, InLayout(query_heads_, query_length_, head_dim_), request_.mutable_query());
    Fill(type_, InLayout(kv_heads_, key_length_, head_dim_), request_.mutable_key());
    Fill(type_, InLayout(kv_heads_, key_length_, value_dim_), request_.mutable_value());
  }

  // batch + 1 numbers from 0 to `total`.
  void AddStarts(int64_t total, google::protobuf::RepeatedField<int64_t>* starts) {
    std::multiset<int64_t> inner;
    for (int64_t b = 1; b < batch_; ++b) inner.insert(static_cast<int64_t>(Below(static_cast<uint64_t>(total + 1))));
    starts->Add(0);
    for (const int64_t start : inner) starts->Add(start);
    starts->Add(total);
  }

  void AddBroadcastTensor(v1::DataType type, Tensor* tensor) {
    std::vector<int64_t> shape = {batch_, query_heads_, query_length_, key_length_};
    shape.erase(shape.begin(), shape.begin() + static_cast<int64_t>(Below(3)));
    for (int64_t& length : shape) {
      if (Chance(0.4)) length = 1;
    }
    Fill(type, shape, tensor);
  }

  void AddOptions() {
    v1::AttentionOptions& options = *request_.mutable_options();
    options.set_layout(layout_);
    if (Chance(0.2)) options.set_scale(AnyFloat());
    if (Chance(0.2)) options.set_softcap(std::abs(AnyFloat()));
    if (Chance(0.5)) options.set_causal(static_cast<v1::CausalAlignment>(Below(4)));
    if (Chance(0.2)) options.set_window_left(Chance(0.8) ? static_cast<int64_t>(Below(40)) - 1 : AnyInteger());
    if (Chance(0.2)) options.set_window_right(Chance(0.8) ? static_cast<int64_t>(Below(40)) - 1 : AnyInteger());
    if (batch_ < 1000) AddLists(options);
    if (Chance(0.2)) options.mutable_alibi_slopes()->Resize(static_cast<int>(query_heads_), 0.1F);
    if (Chance(0.2)) {
      for (int64_t h = 0; h < query_heads_; ++h) options.add_sinks(AnyFloat());
    }
    if (Chance(0.2)) options.set_compute_type(v1::COMPUTE_TYPE_BF16);
    if (Chance(0.2)) options.set_output_type(Chance(0.5) ? type_ : v1::DATA_TYPE_FLOAT32);
    if (Chance(0.2)) options.set_reject_non_finite(true);
    if (layout_ == v1::LAYOUT_THD && !Chance(0.02)) return;
    if (Chance(0.2)) AddBroadcastTensor(v1::DATA_TYPE_BOOL, options.mutable_mask());
    if (Chance(0.2)) {
      AddBroadcastTensor(OneOf({v1::DATA_TYPE_FLOAT32, v1::DATA_TYPE_BFLOAT16, v1::DATA_TYPE_FLOAT16}),
                         options.mutable_bias());
    }
  }

  // Lists of an element for each of the batch.
  void AddLists(v1::AttentionOptions& options) {
    if (Chance(0.2)) {
      for (int64_t b = 0; b < batch_; ++b) options.add_query_offset(AnyInteger());
    }
    if (layout_ == v1::LAYOUT_THD) {
      AddStarts(query_length_, options.mutable_query_starts());
      AddStarts(key_length_, options.mutable_key_starts());
    } else if (Chance(0.2)) {
      for (int64_t b = 0; b < batch_; ++b) {
        options.add_key_lengths(static_cast<int64_t>(Below(static_cast<uint64_t>(key_length_ + 1))));
      }
    }
  }

  void AddResults() {
    v1::ResultSelection& results = *request_.mutable_results();
    const bool matrices = layout_ != v1::LAYOUT_THD || Chance(0.02);
    if (matrices && Chance(0.3)) results.set_weights(true);
    if (matrices && Chance(0.3)) results.set_scores(static_cast<v1::ScoreStage>(Below(5)));
    if (Chance(0.3)) results.set_logsumexp(true);
    const bool some = results.weights() || results.scores() > v1::SCORE_STAGE_NONE;
    if (some && Chance(0.4)) {
      for (int64_t i = query_length_ - 1; i >= 0; --i) {
        if (Chance(0.3)) results.add_weight_query_rows(i);
      }
    }
    if (results.weights() && Chance(0.4)) results.set_average_weights_over_heads(true);
    if ((some || results.logsumexp()) && Chance(0.3)) results.set_omit_output(true);
  }

  // Sets, changes or clears a field of `message`, or of a message in it.
  void Spoil(Message& message) {
    const auto& descriptor = *message.GetDescriptor();
    const FieldDescriptor& field = *descriptor.field(static_cast<int>(Below(descriptor.field_count())));
    const Reflection& reflection = *message.GetReflection();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (Chance(0.05)) return reflection.ClearField(&message, &field);
      return Spoil(*reflection.MutableMessage(&message, &field));
    }
    if (Chance(0.1)) return reflection.ClearField(&message, &field);
    field.is_repeated() ? SpoilList(message, field) : SpoilValue(message, field);
  }

  void SpoilValue(Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_ENUM:
        // One number more than there are.
        return reflection.SetEnumValue(&message, &field, static_cast<int>(Below(field.enum_type()->value_count() + 1)));
      case FieldDescriptor::CPPTYPE_INT64:
        return reflection.SetInt64(&message, &field, AnyInteger());
      case FieldDescriptor::CPPTYPE_INT32:
        return reflection.SetInt32(&message, &field, static_cast<int32_t>(AnyInteger()));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return reflection.SetFloat(&message, &field, AnyFloat());
      case FieldDescriptor::CPPTYPE_BOOL:
        return reflection.SetBool(&message, &field, Chance(0.5));
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string bytes = reflection.GetString(message, &field);
        bytes.resize(Chance(0.5) ? bytes.size() + 1 + Below(200) : bytes.size() / 2, 'x');
        return reflection.SetString(&message, &field, bytes);
      }
      default:
        FAIL() << "no value for a field of type " << field.type_name() << ": " << field.full_name();
    }
  }

  void SpoilList(Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    const int count = reflection.FieldSize(message, &field);
    const bool integers = field.cpp_type() == FieldDescriptor::CPPTYPE_INT64;
    if (count > 0 && Chance(0.3)) return reflection.RemoveLast(&message, &field);
    if (count == 0 || Chance(0.4)) {
      integers ? reflection.AddInt64(&message, &field, AnyInteger())
               : reflection.AddFloat(&message, &field, AnyFloat());
      return;
    }
    const int at = static_cast<int>(Below(count));
    integers ? reflection.SetRepeatedInt64(&message, &field, at, AnyInteger())
             : reflection.SetRepeatedFloat(&message, &field, at, AnyFloat());
  }

  std::mt19937_64 random_;
  AttendRequest request_;
  v1::Layout layout_ = v1::LAYOUT_BHND;
  v1::DataType type_ = v1::DATA_TYPE_FLOAT32;
  int64_t batch_ = 0;
  int64_t query_heads_ = 0;
  int64_t kv_heads_ = 0;
  int64_t query_length_ = 0;
  int64_t key_length_ = 0;
  int64_t head_dim_ = 0;
  int64_t value_dim_ = 0;
};

// The names of the fields of options and results that are set.
std::set<std::string> FieldsOf(const AttendRequest& request) {
  std::set<std::string> names;
  for (const Message* message :
       {static_cast<const Message*>(&request.options()), static_cast<const Message*>(&request.results())}) {
    std::vector<const FieldDescriptor*> fields;
    message->GetReflection()->ListFields(*message, &fields);
    for (const FieldDescriptor* field : fields) names.insert(field->name());
  }
  return names;
}

// A tensor's bytes are those of its shape.
void ExpectWhole(const Tensor& tensor) {
  if (tensor.data_type() == v1::DATA_TYPE_UNSPECIFIED) return;
  uint64_t bytes = tensor.data_type() == v1::DATA_TYPE_FLOAT32 ? 4 : 2;
  for (const int64_t length : tensor.shape()) bytes *= static_cast<uint64_t>(length);
  EXPECT_EQ(tensor.data().size(), bytes);
}

class RandomRequestTest : public ServerTest {
 protected:
  static void SetUpTestSuite() { StartServer({.flags = {"--max_message_bytes=8MiB", "--memory_budget=512MiB"}}); }

  void SetUp() override {
    ServerTest::SetUp();
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    stub_ = v1::AttentionService::NewStub(
        grpc::CreateCustomChannel(server().grpc_address(), grpc::InsecureChannelCredentials(), arguments));
  }

  grpc::Status Attend(const AttendRequest& request, v1::AttendResponse* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    return stub_->Attend(&context, request, response);
  }

 private:
  std::unique_ptr<v1::AttentionService::Stub> stub_;
};

TEST_F(RandomRequestTest, AreComputedOrRefused) {
  const uint64_t seed = std::random_device()();
  std::cout << "seed " << seed << "\n";
  RandomRequest random(seed);
  AttendRequest plain;
  for (Tensor* tensor : {plain.mutable_query(), plain.mutable_key(), plain.mutable_value()}) {
    tensor->set_data_type(v1::DATA_TYPE_FLOAT32);
    for (const int64_t length : {1, 2, 70, 8}) tensor->add_shape(length);
    std::vector<float> elements(2 * 70 * 8);
    for (size_t i = 0; i < elements.size(); ++i) elements[i] = std::sin(static_cast<float>(i));
    tensor->set_data(elements.data(), elements.size() * sizeof(float));
  }
  v1::AttendResponse want;
  ASSERT_TRUE(Attend(plain, &want).ok());
  std::map<std::string, int> computed;  // messages, by the option that they have
  int ok = 0;
  for (int n = 0; n < kMessages; ++n) {
    const AttendRequest request = random.Next();
    ASSERT_LT(request.ByteSizeLong(), size_t{1} << 20);
    v1::AttendResponse response;
    const grpc::Status status = Attend(request, &response);
    ASSERT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::INVALID_ARGUMENT)
        << "message " << n << " of seed " << seed << ": code " << status.error_code() << ", " << status.error_message()
        << "\n"
        << request.options().ShortDebugString().substr(0, 2000);
    if (status.ok()) {
      ++ok;
      for (const std::string& name : FieldsOf(request)) ++computed[name];
      for (const Tensor& tensor : {response.output(), response.weights(), response.scores(), response.logsumexp()}) {
        ExpectWhole(tensor);
      }
    }
    v1::AttendResponse next;
    ASSERT_TRUE(Attend(plain, &next).ok()) << "after message " << n << " of seed " << seed;
    ASSERT_EQ(next.output().data(), want.output().data()) << "after message " << n << " of seed " << seed;
  }
  // The test is of use only if messages of all kinds pass, and others do not.
  EXPECT_GT(ok, kMessages / 4);
  EXPECT_LT(ok, kMessages * 3 / 4);
  for (const auto* descriptor : {v1::AttentionOptions::descriptor(), v1::ResultSelection::descriptor()}) {
    for (int i = 0; i < descriptor->field_count(); ++i) {
      EXPECT_GT(computed[descriptor->field(i)->name()], 10) << descriptor->field(i)->name();
    }
  }
}

}  // namespace
}  // namespace attend::testing
