// SPDX-License-Identifier: Apache-2.0
#include "worker/program/command.hpp"

int main(int argc, char** argv) {
  return lanemq::worker::command(argc, argv);
}
