// The float kernels: the definition of the operators. Inputs have passed inference; what only the data can get wrong
// (an index, a division of integers by zero) comes back as an Error.
#pragma once

#include "ops/ops.h"

namespace swoop {

#define KERNEL(name) Result<void> name(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out)
KERNEL(ref_conv);
KERNEL(ref_conv_transpose);
KERNEL(ref_linear);
KERNEL(ref_matmul);
KERNEL(ref_pool);           // max_pool, avg_pool
KERNEL(ref_adaptive_pool);  // both
KERNEL(ref_resize);
KERNEL(ref_unary);
KERNEL(ref_clamp);
KERNEL(ref_prelu);
KERNEL(ref_binary);
KERNEL(ref_compare);  // compare, logical
KERNEL(ref_logical_not);
KERNEL(ref_bitwise);
KERNEL(ref_bitwise_not);
KERNEL(ref_where);
KERNEL(ref_reduce);  // sum, mean, amax, amin, prod, any, all, var
KERNEL(ref_arg_extremum);
KERNEL(ref_cumsum);
KERNEL(ref_softmax);
KERNEL(ref_layer_norm);  // and rms_norm
KERNEL(ref_group_norm);
KERNEL(ref_batch_norm);
KERNEL(ref_attention);
KERNEL(ref_reshape);
KERNEL(ref_transpose);
KERNEL(ref_concat);
KERNEL(ref_slice);
KERNEL(ref_pad);
KERNEL(ref_expand);
KERNEL(ref_repeat);
KERNEL(ref_flip);
KERNEL(ref_gather);
KERNEL(ref_gather_elements);
KERNEL(ref_scatter_elements);

}  // namespace swoop
