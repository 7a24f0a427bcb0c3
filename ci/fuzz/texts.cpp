// Texts: the first byte chooses the reader.
#include <cstdint>

#include "harness/plugin_table.hpp"
#include "harness/reduced.hpp"
#include "harness/suite.hpp"
#include "harness/walk.hpp"
#include "reports/json.hpp"
#include "reports/runs.hpp"

#include "ci/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace parity;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  fuzz::expect_refusals([&] {
    switch (data[0] % 8) {
      case 0:  // an id; printed, it reads back as itself
        if (const ParsedId id = parse_id(text);
            print_id(id.problem, id.kernel, id.kernel_options) !=
            print_id(parse_id(print_id(id.problem, id.kernel, id.kernel_options)).problem,
                     id.kernel, id.kernel_options))
          __builtin_trap();
        break;
      case 1:
        if (const ReducedFill fill = ReducedFill::parse(text);
            ReducedFill::parse(fill.str()).str() != fill.str())
          __builtin_trap();
        break;
      case 2:
        static_cast<void>(reports::parse_line(text));
        break;
      case 3:
        static_cast<void>(reports::parse_summary(text));
        break;
      case 4:
        static_cast<void>(reports::parse_widenings(std::string(text), "file"));
        break;
      case 5:
        static_cast<void>(parse_table(text));
        break;
      case 6:
        static_cast<void>(from_wire(text));
        break;
      default: {
        const std::size_t half = text.find('\n');
        static_cast<void>(glob_match(text.substr(0, half), text.substr(half + 1)));
      }
    }
  });
  return 0;
}
