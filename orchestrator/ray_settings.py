"""Settings of Ray that must stand in the environment before it is imported, by either door."""

import os
import sys

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000",  # its snapshots stop the loop, and nothing reads them
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
if "ray" not in sys.modules:  # the mode is read at import, and is too late afterwards
    SETTINGS["RAY_AUTH_MODE"] = "token"
for _key, _value in SETTINGS.items():
    os.environ.setdefault(_key, _value)
