// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lanemq::http {

/// Guards this thread while it reads a Spool's mapping. A page that the disk cannot read would end the
/// program by SIGBUS; here it reads as zeros, and happened() tells that the data is invalid. One at a time
/// per thread.
///
/// The file is mapped and not read piece by piece, since JSON is checked and cut into lines as one text; in
/// memory that would be the quarter of a gigabyte that the disk is to save.
class DiskFaults {
 public:
  DiskFaults();
  ~DiskFaults();
  DiskFaults(const DiskFaults&) = delete;
  DiskFaults& operator=(const DiskFaults&) = delete;

  bool happened() const;
};

}  // namespace lanemq::http
