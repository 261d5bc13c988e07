// Operators that no core operator expresses but whose schema is known, so that their opaque nodes carry every argument;
// assertions, of which nothing remains; and questions about sizes, which static shapes answer.
#include "import/aten.h"

namespace swoop {

namespace {

// kernel: the operator of the same arguments that the runtime knows it by, where that is another one
constexpr Row kept(std::string_view name, std::string_view schema, std::string_view kernel = {}) {
  return {name, schema, nullptr, kernel};
}
constexpr Row dropped(std::string_view name, std::string_view schema) {
  return {name, schema, nullptr, "", RowKind::Drop};
}
constexpr Row number(std::string_view name, std::string_view schema) {
  return {name, schema, nullptr, "", RowKind::Number};
}

constexpr Row kHostRows[] = {
    kept("aten.topk.default", "self, k, dim=-1, largest=True, sorted=True"),
    kept("aten.nonzero.default", "self"),
    kept("aten.grid_sampler.default", "input, grid, interpolation_mode, padding_mode, align_corners",
         "aten.grid_sampler_2d.default"),
    kept("aten.grid_sampler_2d.default", "input, grid, interpolation_mode, padding_mode, align_corners"),
    kept("aten.atan2.default", "self, other"),
    kept("aten.masked_select.default", "self, mask"),
    kept("aten.masked_scatter.default", "self, mask, source"),
    kept("aten.repeat_interleave.Tensor", "repeats, *, output_size=None"),
    kept("aten.view.dtype", "self, dtype"),
    kept("quantized_decomposed.choose_qparams.tensor", "input, quant_min, quant_max, eps, dtype"),
    kept("quantized_decomposed.choose_qparams_symmetric.tensor", "input, quant_min, quant_max, eps, dtype"),

    dropped("aten._assert_tensor_metadata.default",
            "a, size=None, stride=None, dtype=None, *, device=None, layout=None"),
    dropped("aten._assert_async.default", "self"),
    dropped("aten._assert_async.msg", "self, assert_msg"),
    dropped("aten._assert_scalar.default", "self, assert_msg"),
    dropped("aten.sym_constrain_range.default", "size, *, min=None, max=None"),
    dropped("aten.sym_constrain_range_for_size.default", "size, *, min=None, max=None"),

    number("aten.sym_size.int", "self, dim"),
    number("aten.sym_numel.default", "self"),
    number("aten.item.default", "self"),
    number("aten._local_scalar_dense.default", "self"),
};

}  // namespace

std::span<const Row> host_rows() { return kHostRows; }

}  // namespace swoop
