// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace lanemq::service {

/// Takes the descriptors 0 to 2 where the process was started without them, so that no file or socket of its
/// own becomes its standard output, into which others write. To be called before anything is opened.
///
/// Each is /dev/null for the wrong direction: who writes or reads there is told so, as without it.
inline void take_standard_descriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor)
    if (fcntl(descriptor, F_GETFD) < 0 &&
        open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
      return;  // open() takes the lowest that is free, which is this one
}

}  // namespace lanemq::service
