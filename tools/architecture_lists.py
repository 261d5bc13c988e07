"""The networks of tools/architectures.py, and the small configurations of those of transformers."""

TIMM = """resnet18 resnet26d resnet50 seresnet50 ecaresnet26t resnext26ts wide_resnet50_2 res2net50_26w_4s resnest14d cspresnet50 cspdarknet53 darknet53 densenet121 dla34 dpn48b vgg11 vgg11_bn
mobilenetv1_100 mobilenetv2_050 mobilenetv2_100 mobilenetv3_small_050 mobilenetv3_large_100 mobilenetv4_conv_small mobilenetv4_conv_medium mobilenetv4_hybrid_medium mnasnet_small mnasnet_100 semnasnet_075
fbnetc_100 fbnetv3_b spnasnet_100 hardcorenas_a lcnet_050 lcnetv2_base tinynet_a tinynet_e ghostnet_050 ghostnet_100 ghostnetv2_100 ghostnetv3_050 mixnet_s mixnet_m tf_mixnet_l mobilenet_edgetpu_100
efficientnet_b0 efficientnet_b0_gn efficientnet_lite0 efficientnet_es efficientnetv2_rw_t tf_efficientnetv2_b0 tf_efficientnet_cc_b0_4e efficientvit_m0 efficientvit_b0 efficientvit_l1 efficientformer_l1 efficientformerv2_s0
rexnet_100 rexnetr_200 regnetx_002 regnety_002 regnetz_005 regnetz_b16 regnetv_040 repvgg_a0 mobileone_s0 fastvit_t8 repghostnet_050 repvit_m0_9 starnet_s1 inception_v3 inception_v4 xception41 nasnetalarge pnasnet5large
selecsls42 skresnet18 hrnet_w18_small gernet_s nfnet_l0 dm_nfnet_f0 nf_regnet_b0 eca_nfnet_l0 resnetv2_50 resnetv2_50x1_bit edgenext_xx_small convnext_atto convnext_femto_ols convnextv2_atto inception_next_atto
hgnet_tiny hgnetv2_b0 vovnet39a ese_vovnet19b_dw tresnet_m cs3darknet_s vit_tiny_patch16_224 vit_small_patch16_rope_224 vit_relpos_small_patch16_224 deit_tiny_patch16_224 deit_tiny_distilled_patch16_224
deit3_small_patch16_224 cait_xxs24_224 xcit_nano_12_p16_224 beit_base_patch16_224 eva02_tiny_patch14_224 vit_small_patch14_dinov2 vit_small_patch16_dinov3 mixer_s16_224 gmlp_ti16_224 resmlp_12_224
swin_tiny_patch4_window7_224 swinv2_cr_tiny_224 swinv2_tiny_window8_256 pit_ti_224 tnt_s_patch16_224 visformer_tiny volo_d1_224 coat_lite_tiny coatnet_pico_rw_224 coatnext_nano_rw_224 maxvit_pico_rw_256 maxxvitv2_nano_rw_256
levit_128s levit_conv_128s crossvit_tiny_240 poolformer_s12 poolformerv2_s12 caformer_s18 convformer_s18 mobilevit_xxs mobilevitv2_050 pvt_v2_b0 twins_svt_small twins_pcpvt_small convit_tiny nest_tiny focalnet_tiny_srf
gcvit_xxtiny davit_tiny mvitv2_tiny tiny_vit_5m_224 hiera_tiny_224 botnet26t_256 halonet26t sehalonet33ts lambda_resnet26t bat_resnext26ts csatv2 regnetz_b16_evos samvit_base_patch16_224 convmixer_768_32
sequencer2d_s shvit_s1 swiftformer_xs mambaout_femto rdnet_tiny fasternet_t0 nextvit_small vitamin_small_224 efficientvim_m1 lowformer_b0 cpubone_b0_bfrobust iformer_t resnet10t resnetaa50 resnetblur18 resnetrs50 gcresnext26ts
flexivit_small naflexvit_base_patch16_gap hieradet_tiny vit_wee_patch16_reg1_gap_256 vit_tiny_r_s16_p8_224 test_vit test_vit2 test_vit3 test_vit4 test_convnext2 test_efficientnet_evos test_efficientnet_ln test_nfnet""".split()

TORCHVISION = """alexnet squeezenet1_0 squeezenet1_1 vgg13 resnet34 resnext50_32x4d googlenet inception_v3 densenet169 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large mnasnet0_5 shufflenet_v2_x0_5
shufflenet_v2_x1_0 efficientnet_b1 efficientnet_v2_s regnet_y_400mf regnet_x_800mf convnext_tiny vit_b_32 swin_t swin_v2_t maxvit_t fcn_resnet50 deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large r3d_18 mc3_18
r2plus1d_18 s3d swin3d_t mvit_v2_s""".split()

# Keys that a configuration does not have are kept as plain attributes, and ignored.
TEXT = dict(vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=128, max_position_embeddings=64, d_model=64, encoder_layers=2, decoder_layers=2,
            encoder_ffn_dim=128, decoder_ffn_dim=128, encoder_attention_heads=4, decoder_attention_heads=4, n_embd=64, n_layer=2, n_head=4, n_positions=64, dim=64, n_layers=2, n_heads=4, hidden_dim=128, d_ff=128, d_kv=16,
            num_layers=2, num_heads=4, embedding_size=64, head_dim=16, ffn_dim=128, word_embed_proj_dim=64, attention_types=[[["global", "local"], 1]], rotary_dim=8, pad_token_id=0, bos_token_id=1, eos_token_id=2,
            use_cache=False)
EXPERTS = dict(TEXT, moe_intermediate_size=64, shared_expert_intermediate_size=64, num_experts=4, num_local_experts=4, num_experts_per_tok=2)
IMAGE = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64, patch_size=16, use_cache=False)
STAGES = dict(image_size=64, num_attention_heads=[1, 2, 2, 4], hidden_sizes=[16, 32, 32, 64], num_encoder_blocks=4, patch_sizes=[7, 3, 3, 3], depths=[1, 1, 1, 1])
WINDOWS = dict(image_size=64, patch_size=4, window_size=4, embed_dim=32, depths=[1, 2, 1], num_heads=[2, 2, 4])
CONVOLUTIONS = dict(depths=[1, 1, 2, 1], hidden_sizes=[16, 32, 48, 64], embedding_size=16)
AUDIO = dict(TEXT, conv_dim=(32, 32, 32), conv_kernel=(10, 3, 3), conv_stride=(5, 2, 2), num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, max_source_positions=50, num_mel_bins=20)
SERIES = dict(TEXT, context_length=32, prediction_length=8, input_size=3, num_input_channels=3, lags_sequence=[1, 2, 3], num_time_features=2, scaling=None, patch_length=8, patch_stride=8, label_length=8)


def but(options, *without, **more):
    return {name: value for name, value in {**options, **more}.items() if name not in without}


# name: (kind, configuration, class if not AutoModel's, part of the model if not all). The kind says what the model takes.
TRANSFORMERS = {
    **{name: ("text", TEXT) for name in """bert roberta distilbert albert electra mpnet deberta-v2 convbert camembert xlm-roberta squeezebert layoutlm nystromformer fnet mobilebert gpt2 gpt_neo gpt_neox gptj opt bloom llama mistral
    qwen2 qwen3 gemma gemma2 phi phi3 stablelm olmo granite cohere mamba rwkv roformer megatron-bert ibert ernie rembert deberta longformer canine falcon_mamba""".split()},
    **{name: ("text", EXPERTS) for name in "mixtral qwen2_moe olmoe granitemoe".split()},
    "falcon": ("text", but(TEXT, "head_dim")),
    "funnel": ("text", but(TEXT, "num_hidden_layers", "num_layers", "n_layer", "n_layers", block_sizes=[1, 1, 1], d_model=64, d_head=16, d_inner=128), "FunnelModel"),
    "xlnet": ("text", but(TEXT, "max_position_embeddings", "d_inner", d_head=16, d_inner=128)),
    "mamba2": ("text", but(TEXT, num_heads=8, head_dim=16, state_size=16, n_groups=2, chunk_size=8)),
    "modernbert": ("text", but(TEXT, pad_token_id=0, cls_token_id=1, sep_token_id=2, local_attention=8)),
    "gemma3_text": ("text", but(TEXT, sliding_window=8)),
    "lfm2": ("text", but(TEXT, layer_types=["conv", "full_attention"], block_multiple_of=16)),
    "recurrent_gemma": ("text", but(TEXT, lru_width=64, attention_window_size=8, num_hidden_layers=3)),
    "qwen3_next": ("text", but(EXPERTS, layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16)),
    "bitnet": ("text", TEXT),
    "gpt_oss": ("text", but(EXPERTS, sliding_window=8)),
    "esm": ("text", but(TEXT, position_embedding_type="rotary", mask_token_id=3)),
    "big_bird": ("text", but(TEXT, attention_type="original_full")),
    "codegen": ("text", TEXT),
    "mpt": ("text", TEXT),
    "yoso": ("text", but(TEXT, use_expectation=True)),
    "mra": ("text", TEXT),
    "speecht5-encoder": ("states", but(AUDIO, hidden_size=64), None, "encoder.wrapped_encoder"),
    **{name: ("seq2seq", TEXT) for name in "t5 bart marian pegasus pegasus_x mbart m2m_100 blenderbot umt5".split()},
    "prophetnet": ("seq2seq", but(TEXT, "num_hidden_layers", "num_layers", "n_layer", "n_layers", num_encoder_layers=2, num_decoder_layers=2, num_encoder_attention_heads=4, num_decoder_attention_heads=4)),
    **{name: ("image", IMAGE) for name in "vit deit beit dinov2 mobilevit mobilenet_v1 mobilenet_v2 poolformer clip_vision_model siglip_vision_model data2vec-vision dpt vit_mae vit_msn efficientnet focalnet".split()},
    **{name: ("image", IMAGE) for name in "dinov2_with_registers dinov3_vit ijepa aimv2_vision_model vitdet textnet swiftformer".split()},
    "yolos": ("image", but(IMAGE, image_size=[64, 64])),
    "mobilevitv2": ("image", but(IMAGE, patch_size=2)),
    **{name: ("image", CONVOLUTIONS) for name in "convnext convnextv2 resnet regnet dinov3_convnext".split()},
    "bit": ("image", dict(num_groups=4, depths=[1, 1, 2, 1], hidden_sizes=[32, 64, 96, 128], embedding_size=32)),
    "hgnet_v2": ("image", {}),
    **{name: ("image", STAGES) for name in "segformer glpn pvt_v2".split()},
    "pvt": ("image", but(STAGES, patch_sizes=[4, 2, 2, 2])),
    **{name: ("image", WINDOWS) for name in "swin swinv2 donut-swin maskformer-swin".split()},
    "hiera": ("image", dict(image_size=[64, 64], embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 4, 8], num_query_pool=3)),
    "levit": ("image", dict(image_size=64, hidden_sizes=[32, 48, 64], num_attention_heads=[2, 3, 4], depths=[1, 1, 1], key_dim=[16, 16, 16])),
    "cvt": ("image", dict(image_size=64, embed_dim=[16, 32, 64], num_heads=[1, 2, 4], depth=[1, 2, 3])),
    "sam_vision_model": ("image", but(IMAGE, window_size=2, global_attn_indexes=[1], output_channels=32, num_pos_feats=32)),
    "swin2sr": ("image", dict(image_size=32, patch_size=1, embed_dim=24, depths=[1, 1], num_heads=[2, 2], window_size=4)),
    "depth_anything": ("image", dict(backbone_config=dict(IMAGE, model_type="dinov2", patch_size=8, out_features=["stage1", "stage2"], reshape_hidden_states=False), patch_size=8, reassemble_factors=[2, 1],
                                     neck_hidden_sizes=[16, 32], fusion_hidden_size=16, reassemble_hidden_size=64, head_hidden_size=16), "DepthAnythingForDepthEstimation"),
    "zoedepth": ("image", dict(backbone_config=dict(IMAGE, model_type="beit", use_relative_position_bias=True, num_hidden_layers=4, out_features=["stage1", "stage2", "stage3", "stage4"], reshape_hidden_states=False), neck_hidden_sizes=[16, 32, 32, 64],
                               fusion_hidden_size=16, bottleneck_features=16, bin_embedding_dim=16, num_attractors=[8, 4, 2, 1], num_relative_features=8,
                               bin_configurations=[dict(n_bins=8, min_depth=0.001, max_depth=10.0, name="nyu")]), "ZoeDepthForDepthEstimation"),
    "upernet": ("image", dict(backbone_config=dict(CONVOLUTIONS, model_type="convnext", out_features=["stage1", "stage2", "stage3", "stage4"]), hidden_size=32, auxiliary_in_channels=48, auxiliary_channels=16),
                "UperNetForSemanticSegmentation"),
    "superpoint": ("grey", dict(encoder_hidden_sizes=[16, 16, 32, 32], decoder_hidden_size=32, descriptor_decoder_dim=32), "SuperPointForKeypointDetection", "encoder"),
    "detr": ("image", dict(but(TEXT, num_queries=10), use_timm_backbone=False, use_pretrained_backbone=False, backbone_config=dict(CONVOLUTIONS, model_type="resnet", out_features=["stage4"]))),
    "maskformer": ("image", dict(backbone_config=dict(CONVOLUTIONS, model_type="resnet", out_features=["stage1", "stage2", "stage3", "stage4"]), decoder_config=dict(TEXT, model_type="detr", num_queries=10), fpn_feature_size=32,
                                 mask_feature_size=32)),
    "timesformer": ("video", but(IMAGE, image_size=32, num_frames=4, patch_size=8)),
    "videomae": ("video", but(IMAGE, image_size=32, num_frames=4, patch_size=8)),
    "vivit": ("video", but(IMAGE, image_size=32, num_frames=4, tubelet_size=[2, 8, 8])),
    **{name: ("audio", AUDIO) for name in "wav2vec2 hubert wavlm sew-d sew wav2vec2-conformer data2vec-audio unispeech-sat".split()},
    "moonshine-encoder": ("audio", but(TEXT, encoder_num_hidden_layers=2, decoder_num_hidden_layers=1, encoder_num_attention_heads=4, decoder_num_attention_heads=4), None, "encoder"),
    "dac-encoder": ("wave", dict(encoder_hidden_size=8, downsampling_ratios=[2, 4, 5], decoder_hidden_size=64), None, "encoder"),
    "dac-decoder": ("codes", dict(encoder_hidden_size=4, downsampling_ratios=[2, 4, 5], hidden_size=32, decoder_hidden_size=64, upsampling_ratios=[5, 4, 2]), None, "decoder"),
    "whisper-encoder": ("mel", AUDIO, None, "encoder"),
    "speech_to_text-encoder": ("frames", but(AUDIO, input_feat_per_channel=24, input_channels=1, conv_channels=32, max_source_positions=100), None, "encoder"),
    "wav2vec2-bert": ("frames", but(AUDIO, feature_projection_input_dim=24, conv_depthwise_kernel_size=7)),
    "parakeet_encoder": ("frames", but(AUDIO, num_mel_bins=24, subsampling_conv_channels=16)),
    "granite_speech_encoder": ("frames", dict(input_dim=24, num_layers=2, hidden_dim=64, num_heads=4, dim_head=16, context_size=20, max_pos_emb=32, output_dim=16, conv_kernel_size=7), "models.granite_speech.modeling_granite_speech.GraniteSpeechCTCEncoder"),
    "audio-spectrogram-transformer": ("frames", but(IMAGE, max_length=100, num_mel_bins=24, frequency_stride=4, time_stride=10)),
    "clap_audio_model": ("spectrogram", dict(num_mel_bins=16, spec_size=64, window_size=4, patch_embeds_hidden_size=16, hidden_size=64, num_hidden_layers=3, depths=[1, 2, 1], num_attention_heads=[1, 2, 4]), "ClapAudioModel"),
    "patchtst": ("series", SERIES), "patchtsmixer": ("series", SERIES),
    "autoformer": ("past", but(SERIES, scaling=False)),
    **{name: ("past", but(SERIES, distil=False)) for name in "informer time_series_transformer".split()},
}
