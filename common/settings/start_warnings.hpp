// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/log/log.hpp"
#include "common/settings/asked.hpp"
#include "common/settings/secrets/exposed_files.hpp"
#include "common/settings/secrets/secret_source.hpp"

/// What a program says at its start of its options. Requires: the log is set up.
namespace lanemq::settings {

/// Warns of old spellings, with the present ones.
inline void warn_of(const std::vector<OldSpelling>& spellings) {
  for (const OldSpelling& old : spellings)
    log::event(log::Level::warning, "config.old_spelling", {{"place", old.place}, {"write", old.write}});
}

/// Warns of files that are open to others.
inline void warn_of(const std::vector<ExposedFile>& files) {
  for (const ExposedFile& file : files)
    log::event(log::Level::warning, "secret.exposed", {{"file", file.path}, {"do", file.what}});
}

/// Tells of the credentials that a check could not read.
inline void tell_of_credentials(const std::string& program) {
  for (const std::string& name : credentials_as_given())
    log::complain(
        program + ": credential:" + name +
        " is taken as given: systemd shows it to the service alone ($CREDENTIALS_DIRECTORY is not set)");
}

}  // namespace lanemq::settings
