#include "kernels/device/evil_for_test.hpp"

namespace parity::test {

const std::vector<EvilOnDevice>& evils_on_device() {
  static const std::vector<EvilOnDevice> none;
  return none;
}

}  // namespace parity::test
