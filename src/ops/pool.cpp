// Pooling and resampling. Averages and interpolations stay within their input's range, so all of them may have its
// quantization; a quantizer gives averages the smaller range that they have.
#include "ops/infer.h"
#include "ops/ref.h"
#include "ops/rows.h"
#include "ops/window.h"

namespace swoop {

namespace {

Result<Types> infer_pool(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  TRY_ASSIGN(Layout layout, layout_of(node, x.shape, 1, 2));
  TRY_ASSIGN(const Ints* kernel, ints_attr(node, Key::Kernel, static_cast<int64_t>(layout.space.size())));
  TRY_ASSIGN(Windows windows, windows_of(node, layout.space, *kernel));
  for (size_t i = 0; i < kernel->size(); ++i)
    if (windows.before[i] >= (*kernel)[i] * windows.dilation[i] ||
        windows.after[i] >= (*kernel)[i] * windows.dilation[i])
      return error("{} with kernel {} has padding as large as its window: some windows would see nothing",
                   name_of(node.op), to_text(*kernel));
  TRY(count_windows(node, windows, node.flag(Key::CeilMode)));
  if (node.op == Op::AvgPool && !is_float(real_dtype(x)))
    return error("avg_pool works on floats, not on {}", to_text(x));
  layout.space = windows.out;
  TRY_ASSIGN(Types types, one(node, real_dtype(x), shape_of(layout)));
  carry_quantization(x, types[0]);
  return types;
}

Result<Types> infer_adaptive_pool(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  TRY_ASSIGN(Layout layout, layout_of(node, x.shape, 1, 2));
  TRY_ASSIGN(const Ints* size, ints_attr(node, Key::Size, static_cast<int64_t>(layout.space.size())));
  for (size_t i = 0; i < size->size(); ++i)
    if ((*size)[i] < 1 || layout.space[i] < 1)
      return error("{} of {} to size {}: sizes must be at least 1", name_of(node.op), to_text(x.shape), to_text(*size));
  if (node.op == Op::AdaptiveAvgPool && !is_float(real_dtype(x)))
    return error("adaptive_avg_pool works on floats, not on {}", to_text(x));
  layout.space = *size;
  TRY_ASSIGN(Types types, one(node, real_dtype(x), shape_of(layout)));
  carry_quantization(x, types[0]);
  return types;
}

Result<Types> infer_resize(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  TRY_ASSIGN(Layout layout, layout_of(node, x.shape, 1, 2));
  auto dims = static_cast<int64_t>(layout.space.size());
  TRY_ASSIGN(const Ints* size, ints_attr(node, Key::Size, dims));
  TRY_ASSIGN(std::string_view mode, text_attr(node, Key::Mode));
  if (mode != "nearest" && mode != "bilinear") return error("resize has no mode {}", mode);
  const Attr* attr = node.attrs.find(Key::Scales);
  const Doubles* scales = attr ? std::get_if<Doubles>(attr) : nullptr;
  if (!scales || static_cast<int64_t>(scales->size()) != dims)
    return error("resize of {} needs {} scales", to_text(x.shape), dims);
  for (size_t i = 0; i < size->size(); ++i)
    if ((*size)[i] < 1 || layout.space[i] < 1)
      return error("resize of {} to size {}: sizes must be at least 1", to_text(x.shape), to_text(*size));
  layout.space = *size;
  if (mode == "bilinear" && !is_float(real_dtype(x)))
    return error("bilinear resize works on floats, not on {}", to_text(x));
  TRY_ASSIGN(Types types, one(node, real_dtype(x), shape_of(layout)));
  carry_quantization(x, types[0]);
  return types;
}

constexpr Traits kPool = {.window = true, .channels = true, .fuses_clamp = true};
constexpr Traits kAdaptivePool = {.channels = true, .fuses_clamp = true};

}  // namespace

const OpInfo kPoolOps[] = {
    {Op::MaxPool, Policy::SameAsInput, kPool, 1, 1, infer_pool, ref_pool},
    {Op::AvgPool, Policy::OwnRange, kPool, 1, 1, infer_pool, ref_pool},
    {Op::AdaptiveAvgPool, Policy::OwnRange, kAdaptivePool, 1, 1, infer_adaptive_pool, ref_adaptive_pool},
    {Op::AdaptiveMaxPool, Policy::SameAsInput, kAdaptivePool, 1, 1, infer_adaptive_pool, ref_adaptive_pool},
    {Op::Resize, Policy::SameAsInput, {.channels = true}, 1, 1, infer_resize, ref_resize},
};

}  // namespace swoop
