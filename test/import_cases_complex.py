"""Complex values inside of a model, for import_cases.py: name -> (module, inputs)."""

import torch
import torch.nn.functional as F
from import_cases import M, X, numbers
from torch import nn


class Rotary(nn.Module):
    """Llama's own spelling: queries as complex numbers, turned by a complex table."""

    def __init__(self):
        super().__init__()
        self.register_buffer("turns", torch.polar(torch.ones(5, 3), torch.arange(15.0).reshape(5, 3)))

    def forward(self, x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turns).flatten(-2)


def complex_numbers():
    """Complex values inside of a model: pairs of real ones."""
    line, signal = numbers(2, 3, 8), numbers(2, 64)

    def filtered(x):
        spectrum = torch.fft.rfft2(x, norm="ortho")
        return torch.fft.irfft2(spectrum * torch.complex(torch.ones(4, 3), torch.full((4, 3), 0.5)), s=x.shape[-2:], norm="ortho")

    def arithmetic(x, y):
        z, w = torch.complex(x, y), torch.polar(y.abs() + 1, x)
        z = (2 * z - w * 1j) / (w + 3) + z.conj() * x
        return torch.view_as_real(z), z.real, z.imag, z.abs()

    def padded(x):
        return torch.fft.fft(x, n=10, dim=1).abs(), torch.fft.fft(x, n=2, dim=1, norm="forward").real, torch.view_as_real(torch.fft.ifft(x).resolve_conj())

    def frames(x):
        z = torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True)
        short = torch.stft(x[0], 16, 8, 10, torch.hamming_window(10), center=False, normalized=True, onesided=False, return_complex=True)
        return z.abs(), torch.view_as_real(short)

    return {
        "rotary_complex": (Rotary(), (numbers(2, 5, 6),)),
        "fourier_mixing": (lambda x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real, (line,)),
        "fourier_2d": (lambda x: (torch.fft.fft2(x).real, torch.fft.fftn(x).imag, torch.fft.ifftn(x, dim=(0, 2)).real), (line,)),
        "fourier_filter": (filtered, (X,)),
        "fourier_sizes": (padded, (line,)),
        "fourier_phase": (lambda x: torch.fft.rfft(x)[..., 1:-1].angle(), (line,)),
        "fourier_back": (lambda x: torch.fft.irfft(torch.fft.rfft(x), n=7), (line,)),
        "stft": (frames, (signal,)),
        "complex_arithmetic": (arithmetic, (M, numbers(3, 4, seed=3))),
        "complex_moved": (lambda x, y: torch.view_as_real(torch.stack([torch.complex(x, y), torch.complex(y, x)], 1).permute(0, 2, 1)[:, 1:].sum(0)), (M, numbers(3, 4, seed=3))),
        "complex_einsum": (lambda x, y: torch.view_as_real(F.pad(torch.einsum("ij,kj->ik", torch.fft.rfft(x), torch.complex(y, x)[:, :3]), (1, 2))), (M, numbers(3, 4, seed=3))),
        "complex_zeros": (lambda x: torch.view_as_real(torch.cat([torch.zeros(3, 2, dtype=torch.cfloat), torch.fft.rfft(x)], 1)), (M,)),
        "complex_matmul": (lambda x, y: torch.view_as_real(torch.complex(x, y) @ torch.complex(y, x).mT), (M, numbers(3, 4, seed=3))),
    }
