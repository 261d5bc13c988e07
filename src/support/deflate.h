// Raw deflate streams (RFC 1951), as zip entries and the map of layers hold them.
#pragma once

#include "support/bytes.h"

namespace swoop {

constexpr uint64_t kMaxDeflateRatio = 1032;  // zlib's technical notes: no deflate stream expands more

Buffer deflated(Bytes bytes);
// Fills `out`, which has the size that the stream is said to give. False: the stream is damaged, gives another size or
// ends before `packed` does.
bool inflate_into(Bytes packed, Buffer& out);

}  // namespace swoop
