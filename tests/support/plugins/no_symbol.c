/* SPDX-License-Identifier: Apache-2.0
 * A shared library that is no plugin. */
int lanemq_no_plugin(void) {
  return 0;
}
