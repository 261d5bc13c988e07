"""The transformers among the networks of networks.py."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F


class Features(nn.Sequential):
    """Layers over the features of [batch, features, time]."""

    def forward(self, x):
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


class WhisperAttention(nn.Module):
    """Attention with its products written out, as Whisper has it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part(x).view(batch, length, self.heads, -1).transpose(1, 2) for part in (self.query, self.key, self.value))
        weights = torch.softmax(q * (width // self.heads) ** -0.5 @ k.transpose(2, 3), -1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class FusedAttention(nn.Module):
    """Queries, keys and values from one matrix, and torch's own attention, as DeiT has it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """Pre-norm: attention, then two linear layers around a GELU."""

    def __init__(self, attention, width, hidden):
        super().__init__()
        self.attend = nn.Sequential(nn.LayerNorm(width), attention)
        self.think = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x):
        x = x + self.attend(x)
        return x + self.think(x)


class WhisperEncoder(nn.Module):
    """Whisper-tiny's encoder: 3000 frames of 80 mel bins to 1500 vectors of 384; the original has four layers."""

    def __init__(self, layers, width=384, heads=6, length=1500):
        super().__init__()
        self.listen = nn.Sequential(nn.Conv1d(80, width, 3, padding=1), nn.GELU(), nn.Conv1d(width, width, 3, stride=2, padding=1), nn.GELU())
        angles = torch.arange(length)[:, None] * torch.exp(-math.log(10000) / (width // 2 - 1) * torch.arange(width // 2))
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], 1))
        self.layers = nn.Sequential(*[Layer(WhisperAttention(width, heads), width, 4 * width) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(self.layers(self.listen(x).permute(0, 2, 1) + self.positions))


class VisionTransformer(nn.Module):
    """DeiT-tiny's width (192, three heads), four layers, 96 x 96 pixels in patches of 16."""

    def __init__(self, width=192, heads=3, layers=4, patch=16, patches=36):
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(0.5 * torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.2 * torch.randn(1, patches + 1, width))
        self.layers = nn.Sequential(*[Layer(FusedAttention(width, heads), width, 4 * width) for _ in range(layers)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 10))

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = self.layers(torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions)
        return self.head(x[:, 0])


class MobileVit(nn.Module):
    """A stem and one MobileViT block: the image is unfolded into 2 x 2 patches, pixels at the same place of a patch attend to each other."""

    def __init__(self, stem, conv, channels=32, width=48, layers=2):
        super().__init__()
        self.stem = stem
        self.enter = nn.Sequential(conv(channels, channels, 3), nn.Conv2d(channels, width, 1, bias=False))
        self.layers = nn.Sequential(*[Layer(FusedAttention(width, 4), width, 2 * width) for _ in range(layers)], nn.LayerNorm(width))
        self.leave, self.fuse = conv(width, channels), conv(2 * channels, channels, 3)
        self.head = nn.Linear(channels, 10)

    def forward(self, x):
        x = self.stem(x)
        y = self.enter(x)
        batch, width, high, wide = y.shape
        rows, columns = high // 2, wide // 2
        y = y.reshape(batch * width * rows, 2, columns, 2).transpose(1, 2).reshape(batch, width, rows * columns, 4)
        y = self.layers(y.transpose(1, 3).reshape(batch * 4, rows * columns, width))
        y = y.reshape(batch, 4, rows * columns, width).transpose(1, 3)
        y = y.reshape(batch * width * rows, columns, 2, 2).transpose(1, 2).reshape(batch, width, high, wide)
        return self.head(self.fuse(torch.cat([x, self.leave(y)], 1)).mean((2, 3)))
