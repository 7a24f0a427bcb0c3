// Checks of what stands behind a flag: "" or what is wrong with it.
#pragma once

#include <string>

namespace parity::cli {

std::string is_seed(const std::string& text);     // a whole number from 0 to 2^64-1
std::string is_seconds(const std::string& text);  // above 0, and no more than eleven days

}  // namespace parity::cli
