// What went wrong, told once, and the exit code that says of which kind it was.
#include <algorithm>
#include <fmt/format.h>

#include "harness/cli/arguments.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/failure.hpp"
#include "harness/source_path.hpp"
#include "reports/json_writer.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

int told(int exit, const std::string& what, bool json) {
  complain(reports::visible(what));  // names in a hostile file
  if (json) {
    reports::JsonWriter out;
    out.begin_object().field("schema", 1).field("exit", exit).field("error", what);
    print(out.end_object().text() + "\n");
  }
  return exit;
}

}  // namespace

int main(int argc, char** argv) {
  const bool json =
      std::any_of(argv, argv + argc, [](std::string_view word) { return word == "--json"; });
  try {
    return dispatch(argc, argv);
  } catch (const UsageError& error) {
    return told(2, error.what(), json);
  } catch (const GoldenError& error) {
    return told(5, error.what(), json);
  } catch (const DeviceAbsent& error) {
    return told(3, error.what(), json);
  } catch (const Failure& error) {
    return told(2,
                fmt::format("{} ({}:{}; a fault of parity itself)", error.what(),
                            in_repository(error.file), error.line),
                json);
  } catch (const std::exception& error) {
    return told(2, fmt::format("{} (a fault of parity itself)", error.what()), json);
  }
}

}  // namespace parity::cli
