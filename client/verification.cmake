# attend::verification: inputs made from a seed, and a reference to compare answers with.
attend_add_library(attend_verification
  ALIAS attend::verification
  HEADERS
    element_rounding.h random_tensor.h reference_attention.h result_verification.h rounding_bound.h tensor_shapes.h
  SOURCES
    element_rounding.cc random_tensor.cc reference_attention.cc result_verification.cc rounding_bound.cc
    tensor_shapes.cc
  DEPS attend::client absl::status absl::statusor absl::strings attend::proto
  PRIVATE_DEPS absl::int128 absl::str_format)

foreach(test IN ITEMS
    element_rounding random_tensor reference_attention result_verification rounding_bound tensor_shapes)
  attend_add_test(${test}_test SOURCES ${test}_test.cc DEPS attend::verification)
endforeach()
