#include "support/deflate.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "support/check.h"

namespace swoop {

Buffer deflated(Bytes bytes) {
  CHECK(bytes.size() <= std::numeric_limits<uInt>::max(), "zlib counts in 32 bits, these are {} bytes", bytes.size());
  z_stream stream{};
  CHECK(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK,
        "zlib refuses to start");
  Buffer out(deflateBound(&stream, bytes.size()));
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib does not finish");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

bool inflate_into(Bytes packed, Buffer& out) {
  z_stream stream{};
  CHECK(inflateInit2(&stream, -MAX_WBITS) == Z_OK, "zlib refuses to start");
  // zlib counts in 32 bits: feed and drain in pieces.
  constexpr size_t kPiece = size_t{1} << 30;
  size_t in = 0;
  size_t made = 0;
  int status = Z_OK;
  std::byte overflow{};  // one byte more than stated is noticed here
  while (status == Z_OK) {
    size_t give = std::min(kPiece, packed.size() - in);
    size_t room = made < out.size() ? std::min(kPiece, out.size() - made) : 1;
    std::byte* to = made < out.size() ? out.data() + made : &overflow;
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data() + in));
    stream.avail_in = static_cast<uInt>(give);
    stream.next_out = reinterpret_cast<Bytef*>(to);
    stream.avail_out = static_cast<uInt>(room);
    status = inflate(&stream, Z_NO_FLUSH);
    in += give - stream.avail_in;
    size_t wrote = room - stream.avail_out;
    if (to == &overflow && wrote > 0) status = Z_DATA_ERROR;
    made += wrote;
    if (status == Z_OK && wrote == 0 && give == stream.avail_in) status = Z_BUF_ERROR;
  }
  inflateEnd(&stream);
  return status == Z_STREAM_END && made == out.size() && in == packed.size();
}

}  // namespace swoop
