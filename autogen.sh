#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes ./configure from configure.ac; needs autoconf, automake and pkg-config.
set -eu
cd "$(dirname "$0")"
exec autoreconf --force --install --warnings=all
