// What a run's record says of where and how it ran: host, compiler, flags, commit, devices,
// libraries.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/record.hpp"

namespace parity {

// `command` is printed as typed; the time is UTC, "2026-01-31T12:34:56Z". Devices are asked in a
// child process.
RunRecord describe_run(const std::string& command, Lane lane, std::optional<std::uint64_t> seed);

// "2026-01-31", UTC.
std::string today();

// Path of libparity_torch.so beside the library of the hub; "" where there is none.
std::string torch_library_path();

}  // namespace parity
