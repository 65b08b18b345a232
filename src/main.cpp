#include "combu/cli.hpp"

int main(int argc, char** argv) {
  return combu::cli_main(argc, argv);
}
