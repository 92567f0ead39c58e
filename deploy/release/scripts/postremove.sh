#!/bin/sh
# After a removal.
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
