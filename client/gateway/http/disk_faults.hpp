// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lanemq::gateway {

/// Watches over this thread while it looks at what a Spool maps. A page that the disk cannot give, or that
/// the file has lost, would end the program by SIGBUS; here it reads as zeros, and happened() tells that what
/// was read is worth nothing. One at a time on each thread.
///
/// Mapped, and not read piece by piece: JSON is checked and cut into lines as one text, and in memory that
/// would be the quarter of a gigabyte that is on the disk to be spared.
class DiskFaults {
 public:
  DiskFaults();
  ~DiskFaults();
  DiskFaults(const DiskFaults&) = delete;
  DiskFaults& operator=(const DiskFaults&) = delete;

  bool happened() const;
};

}  // namespace lanemq::gateway
