// What this header declares is in torch_host.h.
#pragma once
