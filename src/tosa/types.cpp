#include "support/check.h"
#include "tosa/tosa.h"

namespace swoop::tosa {

std::string_view name(Op op) {
  switch (op) {
#define TOSA_OP(name, number, text) \
  case Op::name:                    \
    return text;
#include "tosa/ops.def"
#undef TOSA_OP
  }
  return "UNKNOWN";
}

std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::Bool: return "bool";
    case DType::I4: return "i4";
    case DType::I8: return "i8";
    case DType::I16: return "i16";
    case DType::I32: return "i32";
    case DType::I48: return "i48";
  }
  return "unknown";
}

size_t element_bytes(DType dtype) {
  switch (dtype) {
    case DType::Bool:
    case DType::I4:
    case DType::I8: return 1;
    case DType::I16: return 2;
    case DType::I32: return 4;
    case DType::I48: return 8;
  }
  CHECK(false, "a tensor type {} that does not exist", static_cast<int>(dtype));
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int32_t size : shape) count *= size;
  return count;
}

}  // namespace swoop::tosa
