# attend::core_tiles: tiled attention on oneDNN's matrix products and Highway's SIMD.
attend_add_library(attend_core_tiles
  ALIAS attend::core_tiles
  HEADERS attention_engine.h instruction_set.h tile_kernels.h tiled_attention.h matmul.h packing.h scores_tile.h softmax.h score_transform.h
          visibility.h packed_key_value.h
  SOURCES attention_engine.cc block_results.cc block_rows.cc decode_attention.cc decode_block.cc decode_splits.cc instruction_set.cc
          matmul_emulation.cc onednn_matmul.cc packed_key_value.cc packing.cc query_block.cc row_products.cc
          score_transform.cc softmax.cc tile_kernels.cc tiled_attention.cc tiling.cc visibility.cc
  DEPS attend::core_problem attend::core_pool absl::status absl::statusor absl::strings
  PRIVATE_DEPS OneDNN::dnnl hwy::hwy)

# The least processor that is supported: Highway's baseline, above which it chooses at run time. Only these files have it.
# Where a product is rounded before a sum, and where not, is written in the code: the compiler must not fuse them.
set_source_files_properties(packing.cc packing_test.cc row_products.cc row_products_test.cc score_transform.cc score_transform_test.cc softmax.cc softmax_test.cc
  visibility.cc visibility_test.cc PROPERTIES
  COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-mbmi;-mbmi2;-maes;-mpclmul;-ffp-contract=off")

attend_add_test(attention_engine_test SOURCES attention_engine_test.cc DEPS attend::core_tiles OpenMP::OpenMP_CXX)
attend_add_test(decode_attention_test SOURCES decode_attention_test.cc DEPS attend::core_tiles OpenMP::OpenMP_CXX)
attend_add_test(instruction_set_test SOURCES instruction_set_test.cc DEPS attend::core_tiles)
attend_add_test(onednn_matmul_test SOURCES onednn_matmul_test.cc DEPS attend::core_tiles OpenMP::OpenMP_CXX)
attend_add_test(packed_key_value_test SOURCES packed_key_value_test.cc DEPS attend::core_tiles)
attend_add_test(packing_test SOURCES packing_test.cc DEPS attend::core_tiles hwy::hwy)
attend_add_test(row_products_test SOURCES row_products_test.cc DEPS attend::core_tiles hwy::hwy)
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
    foreach(stem tiled_attention_options decode_attention)
      add_test(NAME ${stem}_${set} COMMAND ${stem}_test --gtest_brief=1)
      set_tests_properties(${stem}_${set} PROPERTIES
        ENVIRONMENT ATTEND_TEST_INSTRUCTION_SET=${set} LABELS core TIMEOUT 300)
    endforeach()
  endforeach()
  # What few query rows do not do, they did before.
  foreach(stem tiled_attention tiled_attention_options tiled_attention_steps)
    add_test(NAME ${stem}_tiles COMMAND ${stem}_test --gtest_brief=1)
    set_tests_properties(${stem}_tiles PROPERTIES ENVIRONMENT ATTEND_TEST_TILES_ONLY=1 LABELS core TIMEOUT 300)
  endforeach()
endif()
attend_add_test(visibility_test SOURCES visibility_test.cc DEPS attend::core_tiles hwy::hwy)
