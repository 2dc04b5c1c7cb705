# attend::core_tiles: tiled attention on oneDNN's matrix products and Highway's SIMD.
attend_add_library(attend_core_tiles
  ALIAS attend::core_tiles
  HEADERS attention_engine.h instruction_set.h tile_kernels.h tiled_attention.h matmul.h packing.h scores_tile.h softmax.h score_transform.h
          visibility.h packed_key_value.h
  SOURCES attention_engine.cc block_results.cc block_rows.cc instruction_set.cc matmul_emulation.cc onednn_matmul.cc packed_key_value.cc packing.cc query_block.cc
          score_transform.cc softmax.cc tile_kernels.cc tiled_attention.cc tiling.cc visibility.cc
  DEPS attend::core_problem attend::core_pool absl::status absl::statusor absl::strings
  PRIVATE_DEPS OneDNN::dnnl hwy::hwy)

# The least processor that is supported: Highway's baseline, above which it chooses at run time. Only these files have it.
# Where a product is rounded before a sum, and where not, is written in the code: the compiler must not fuse them.
set_source_files_properties(packing.cc packing_test.cc score_transform.cc score_transform_test.cc softmax.cc softmax_test.cc
  visibility.cc visibility_test.cc PROPERTIES
  COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-mbmi;-mbmi2;-maes;-mpclmul;-ffp-contract=off")

attend_add_test(attention_engine_test SOURCES attention_engine_test.cc DEPS attend::core_tiles OpenMP::OpenMP_CXX)
attend_add_test(instruction_set_test SOURCES instruction_set_test.cc DEPS attend::core_tiles)
attend_add_test(onednn_matmul_test SOURCES onednn_matmul_test.cc DEPS attend::core_tiles OpenMP::OpenMP_CXX)
attend_add_test(packed_key_value_test SOURCES packed_key_value_test.cc DEPS attend::core_tiles)
attend_add_test(packing_test SOURCES packing_test.cc DEPS attend::core_tiles hwy::hwy)
attend_add_test(score_transform_test SOURCES score_transform_test.cc DEPS attend::core_tiles hwy::hwy)
attend_add_test(softmax_test SOURCES softmax_test.cc DEPS attend::core_tiles hwy::hwy)
attend_add_test(tile_kernels_test SOURCES tile_kernels_test.cc DEPS attend::core_tiles OpenMP::OpenMP_CXX)
attend_add_test(tiled_attention_options_test SOURCES tiled_attention_options_test.cc
  DEPS attend::core_tiles OpenMP::OpenMP_CXX)
attend_add_test(tiled_attention_steps_test SOURCES tiled_attention_steps_test.cc
  DEPS attend::core_tiles OpenMP::OpenMP_CXX)
attend_add_test(tiled_attention_test SOURCES tiled_attention_test.cc DEPS attend::core_tiles OpenMP::OpenMP_CXX)
if(ATTEND_BUILD_TESTS AND ATTEND_SANITIZERS MATCHES "thread")
  # Threads do the same whatever the instructions and element types are; the plain loop would take most of the time.
  set_tests_properties(tiled_attention_options_test PROPERTIES ENVIRONMENT GTEST_FILTER=-*EveryType)
elseif(ATTEND_BUILD_TESTS)
  foreach(set avx2 avx512)
    add_test(NAME tiled_attention_options_${set} COMMAND tiled_attention_options_test --gtest_brief=1)
    set_tests_properties(tiled_attention_options_${set} PROPERTIES
      ENVIRONMENT ATTEND_TEST_INSTRUCTION_SET=${set} LABELS core TIMEOUT 300)
  endforeach()
endif()
attend_add_test(visibility_test SOURCES visibility_test.cc DEPS attend::core_tiles hwy::hwy)
