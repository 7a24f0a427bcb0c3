#include "reports/pack.hpp"

#include <zlib.h>

#include "harness/failure.hpp"

namespace parity::reports {
namespace {

std::string gzip(std::string_view text) {
  constexpr int kGzip = 16 + MAX_WBITS;  // a gzip header, not zlib's
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, /*memLevel=*/9,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw Failure("zlib does not start");
  std::string in(text);  // zlib's pointers are not const
  std::string out(deflateBound(&stream, in.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int ended = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (ended != Z_STREAM_END) throw Failure("zlib did not finish");
  return out;
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - at);
    unsigned triple = 0;
    for (std::size_t i = 0; i < 3; ++i)
      triple = triple << 8U | (i < n ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) out += i <= n ? kDigits[triple >> (18 - 6 * i) & 63U] : '=';
  }
  return out;
}

}  // namespace

std::string packed(std::string_view text) { return base64(gzip(text)); }

}  // namespace parity::reports
