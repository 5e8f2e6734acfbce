// SPDX-License-Identifier: Apache-2.0
#include "broker/program/command.hpp"

int main(int argc, char** argv) {
  return lanemq::program::command(argc, argv);
}
