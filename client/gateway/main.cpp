// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/program/command.hpp"

int main(int argc, char** argv) {
  return lanemq::gateway::command(argc, argv);
}
