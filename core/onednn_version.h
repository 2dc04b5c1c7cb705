// What differs between oneDNN 2.6 and 3.x, in one place. Included by core/onednn_*.cc only.
#ifndef ATTEND_CORE_ONEDNN_VERSION_H_
#define ATTEND_CORE_ONEDNN_VERSION_H_

#include <oneapi/dnnl/dnnl.hpp>

namespace attend::core {

inline dnnl::matmul::primitive_desc DescribeMatmul(const dnnl::engine& engine, const dnnl::memory::desc& left,
                                                   const dnnl::memory::desc& right, const dnnl::memory::desc& result,
                                                   const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(engine, left, right, result, attributes);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(left, right, result), attributes, engine);
#endif
}

}  // namespace attend::core

#endif  // ATTEND_CORE_ONEDNN_VERSION_H_
