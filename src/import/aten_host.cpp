// Operators that no core operator expresses but whose schema is known, so that their opaque nodes carry every argument;
// assertions, of which nothing remains; and questions about sizes, which static shapes answer.
#include "import/aten.h"

namespace swoop {

namespace {

constexpr Row kept(std::string_view name, std::string_view schema) { return {name, schema}; }
constexpr Row dropped(std::string_view name, std::string_view schema) {
  return {name, schema, nullptr, "", RowKind::Drop};
}
constexpr Row number(std::string_view name, std::string_view schema) {
  return {name, schema, nullptr, "", RowKind::Number};
}

constexpr Row kHostRows[] = {
    kept("aten.nonzero.default", "self"),
    kept("aten.masked_select.default", "self, mask"),
    kept("aten.masked_scatter.default", "self, mask, source"),
    kept("aten.repeat_interleave.Tensor", "repeats, *, output_size=None"),
    kept("aten.view.dtype", "self, dtype"),
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
