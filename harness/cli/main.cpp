#include "harness/cli/arguments.hpp"

int main(int argc, char** argv) { return parity::cli::main(argc, argv); }
